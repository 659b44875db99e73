"""Milliseconds of one ConvNet training step in PyTorch on the CPU (batch 128: forward, backward, clip, Adam): the peer of step_bench.

usage: pytorch_step.py THREADS STEPS [channels_last] [bf16] [compile]     prints the median and the smallest
"""
import contextlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from pytorch_epoch import ConvNet


def main():
    threads, steps, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    layout = torch.channels_last if 'channels_last' in words else torch.contiguous_format
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = ConvNet().to(memory_format=layout)
    forward = torch.compile(model) if 'compile' in words else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(128, 3, 32, 32).to(memory_format=layout), torch.randint(0, 10, (128,))
    mixed = torch.autocast('cpu', torch.bfloat16) if 'bf16' in words else contextlib.nullcontext()
    times = []
    for i in range(steps + 5):
        start = time.perf_counter()
        optimizer.zero_grad()
        with mixed:
            loss = F.cross_entropy(forward(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if i >= 5:
            times.append(1e3 * (time.perf_counter() - start))
    print(f'median {statistics.median(times):.2f} ms min {min(times):.2f} ms')


if __name__ == '__main__':
    main()
