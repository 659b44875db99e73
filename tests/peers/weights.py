#!/usr/bin/env python3
"""Weights between Spool and PyTorch, both ways: the same file, the same network, the same logits to 1e-5.

usage: weights.py SPOOL_WEIGHTS_PEER, the program of tests/programs/weights_peer.cpp
"""
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(64)
        self.fc1 = nn.Linear(64 * 8 * 8, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def trained_a_little():
    model = ConvNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):  # so that running statistics and biases are not what they begin with
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(16, 3, 32, 32)), torch.randint(0, 10, (16,))).backward()
        optimizer.step()
    return model.eval()


def check(what, got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (what, got.dtype, got.shape, want.dtype, want.shape)
    difference = (got - want).abs().max().item()
    print(f'{what}: largest difference {difference:.2e}')
    assert difference <= 1e-5, what


def main():
    peer = sys.argv[1]
    torch.manual_seed(0)
    folder = tempfile.TemporaryDirectory()
    path = lambda name: f'{folder.name}/{name}.safetensors'
    x = torch.randn(8, 3, 32, 32)
    save_file({'x': x}, path('input'))

    model = trained_a_little()
    save_file(model.state_dict(), path('from_torch'))
    subprocess.run([peer, 'load', path('from_torch'), path('input'), path('logits')], check=True)
    with torch.no_grad():
        check("PyTorch's weights in Spool", load_file(path('logits'))['logits'], model(x))

    # The weights that Spool trained, of a file of weights and of a checkpoint.
    subprocess.run([peer, 'save', path('weights'), path('input'), path('logits'), path('checkpoint')], check=True)
    logits = load_file(path('logits'))['logits']
    state = load_file(path('weights'))
    other = ConvNet()
    print(other.load_state_dict(state, strict=True))
    with torch.no_grad():
        check("Spool's weights in PyTorch", other.eval()(x), logits)
    with safe_open(path('checkpoint'), 'pt') as f:
        assert f.metadata()['format'] == 'spool-checkpoint-1', f.metadata()
        of_model = {k[len('model.'):]: f.get_tensor(k) for k in f.keys() if k.startswith('model.')}
        assert f.get_tensor('optimizer.conv1.weight.step').item() == 3
    assert of_model.keys() == state.keys()
    for name, value in state.items():
        assert torch.equal(of_model[name], value), name
    another = ConvNet()
    another.load_state_dict(of_model, strict=True)
    with torch.no_grad():
        check("Spool's checkpoint in PyTorch", another.eval()(x), logits)


if __name__ == '__main__':
    main()
