#!/usr/bin/env python3
"""Makes state_dict.safetensors, a state_dict() as PyTorch and the safetensors package write it, and state_dict_logits.safetensors, an input and what
the network gives for it in eval mode. Run with PyTorch and safetensors installed:  python3 tests/golden/make_state_dict.py
"""
import os
import torch
from safetensors.torch import save_file
from torch import nn

torch.manual_seed(4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
                                    nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2), nn.GroupNorm(2, 4), nn.GELU())
        self.norm = nn.LayerNorm(8)
        self.embedding = nn.Embedding(5, 4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        h = self.norm(self.block1(x)).mean((2, 3))
        return self.fc(h * self.embedding.weight.sum(0))


def main():
    model = Net()
    for _ in range(2):
        model(torch.randn(6, 3, 8, 8))  # running statistics
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    model.eval()
    x = torch.randn(4, 3, 8, 8)
    folder = os.path.dirname(os.path.abspath(__file__))
    save_file(model.state_dict(), os.path.join(folder, 'state_dict.safetensors'))
    with torch.no_grad():
        save_file({'x': x, 'logits': model(x)}, os.path.join(folder, 'state_dict_logits.safetensors'))


if __name__ == '__main__':
    main()
