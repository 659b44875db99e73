#!/usr/bin/env python3
"""Makes convnet.safetensors: what PyTorch computes in 20 steps of the bundled example's network.

Run with PyTorch, NumPy and safetensors installed:  python3 tests/golden/make_convnet.py
The learning rate and the seed are chosen so that the answer is well defined: at 1e-3, or where an early step comes within rounding of a tie in a
max-pool, PyTorch itself drifts apart by 1e-3 between two orders of summation; here f32, f64 and channels-last agree to 1e-6 over all 20 steps.

The file stays small because the start is rounded to 8 bits (training then goes on from the rounded weights, in f32):
  start.NAME          u8, the weight is (value - 128) * scale.NAME
  images, labels      u8 [20, 16, 3, 32, 32] (as pixel / 127.5 - 1) and i64 [20, 16]
  losses              f32 [20], before each step
  logits              f32 [16, 10], of step 1
  grad.NAME           f32, of step 1, before clipping; fc1.weight keeps rows 0, 16, 32 ... and the sums over each row
  end.NAME            f32, after 20 steps; fc1.weight likewise
"""
import os
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)
torch.set_num_threads(1)


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


def shortened(name, value):
    if name != 'fc1.weight':
        return {name: value.contiguous().clone()}
    return {name: value[::16].contiguous().clone(), name + '.rowsum': value.double().sum(1), name + '.rowsquares': value.double().square().sum(1)}


def main():
    model = ConvNet()
    out = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.startswith('bn'):  # away from 1 and 0, so that a mix-up shows
                p.add_(0.2 * torch.randn_like(p))
            scale = p.abs().max() / 127
            q = (p / scale).round().clamp(-127, 127)
            p.copy_(q * scale)
            out['start.' + name] = (q + 128).to(torch.uint8)
            out['scale.' + name] = scale.reshape(1)
    # Pictures with some structure: smooth noise whose tint depends on the label.
    labels = torch.randint(0, 10, (20, 16))
    coarse = torch.rand(20 * 16, 3, 8, 8)
    tint = torch.rand(10, 3)[labels.reshape(-1)][:, :, None, None]
    pictures = F.interpolate(0.6 * coarse + 0.4 * tint, size=32, mode='bilinear') + 0.1 * torch.randn(20 * 16, 3, 32, 32)
    images = (pictures.clamp(0, 1) * 255).round().to(torch.uint8).reshape(20, 16, 3, 32, 32)
    out['images'], out['labels'] = images, labels
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    losses = []
    for step in range(20):
        optimizer.zero_grad()
        logits = model(images[step].float() / 127.5 - 1)
        loss = F.cross_entropy(logits, labels[step])
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out['logits'] = logits.detach().clone()
            for name, p in model.named_parameters():
                out.update({'grad.' + k: v for k, v in shortened(name, p.grad).items()})
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    out['losses'] = torch.tensor(losses)
    for name, p in model.state_dict().items():
        out.update({'end.' + k: v for k, v in shortened(name, p).items()})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'convnet.safetensors')
    save_file(out, path, metadata={'made_by': 'make_convnet.py', 'torch': torch.__version__})
    print(path, [round(v, 5) for v in losses])


if __name__ == '__main__':
    main()
