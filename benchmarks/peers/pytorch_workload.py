"""The workloads of workload_bench in PyTorch on the CPU; prints the same line "RESULT <median> <min> <unit> <peak memory in MB>".

usage: pytorch_workload.py WORKLOAD THREADS REPEATS BATCH nchw|channels_last
"""
import contextlib
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from pytorch_epoch import ConvNet


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.shortcut = nn.Identity()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), True))) + self.shortcut(x), True)


def resnet18():
    layers, cin = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)], 64
    for cout in (64, 128, 256, 512):
        for stride in ((1 if cout == 64 else 2), 1):
            layers.append(Block(cin, cout, stride))
            cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mlp():
    return nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 10))


def report(work, repeats, per=1, unit='us'):
    for _ in range(max(3, repeats // 10)):
        work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(1e6 * (time.perf_counter() - start) / per)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f'RESULT {statistics.median(times):.4f} {min(times):.4f} {unit} {memory:.0f}')


def train(model, x, labels, clip, mixed, repeats):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        with torch.autocast('cpu', torch.bfloat16) if mixed else contextlib.nullcontext():
            loss = F.cross_entropy(model(x), labels)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    report(step, repeats)


def tiny(n, repeats):
    c, seed, x = torch.rand(n), torch.ones(n), torch.rand(n, requires_grad=True)

    def chain():
        y = x
        for _ in range(500):
            y = (y + c) * c
        y.backward(seed)
        x.grad = None

    report(chain, repeats, 1, 'ns')


def main():
    what, threads, repeats, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    layout = torch.channels_last if 'channels_last' in sys.argv[5:] else torch.contiguous_format
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    labels, mixed = torch.randint(0, 10, (batch,)), what.endswith('-bf16')
    if what == 'tiny':
        return tiny(batch, repeats)
    if what == 'mlp':
        return train(mlp(), torch.randn(batch, 64), labels, None, False, repeats)
    x = torch.randn(batch, 3, 32, 32).to(memory_format=layout)
    model = (resnet18() if what == 'resnet18' else ConvNet()).to(memory_format=layout)
    if what.startswith('infer'):
        model.eval()
        with torch.no_grad(), torch.autocast('cpu', torch.bfloat16, enabled=mixed):
            return report(lambda: model(x), repeats, batch, 'us/image')
    train(model, x, labels, 1.0, mixed, repeats)


if __name__ == '__main__':
    main()
