"""Microseconds of one ConvNet training step in PyTorch on a GPU (batch 128: gather, forward, backward, clip, Adam): the peer of gpu_bench.

usage: pytorch_gpu.py loader|resident|graph [fp32|tf32|bf16] [STEPS]
loader: pictures from the host by a DataLoader, as people do; resident: the data set on the GPU, eager; graph: the same in one CUDA graph
"""
import contextlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from pytorch_epoch import ConvNet


def main():
    mode = sys.argv[1]
    precision = sys.argv[2] if len(sys.argv) > 2 else 'fp32'
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == 'tf32'
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    model = ConvNet().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=mode == 'graph')
    images, labels = torch.randint(0, 256, (50000, 3, 32, 32), dtype=torch.uint8), torch.randint(0, 10, (50000,))

    def mixed():
        return torch.autocast('cuda', torch.bfloat16) if precision == 'bf16' else contextlib.nullcontext()

    def train(x, y):
        x = (x.float() / 127.5 - 1).to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        with mixed():
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    def batches():
        if mode == 'loader':
            data = torch.utils.data.TensorDataset(images, labels)
            loader = torch.utils.data.DataLoader(data, batch_size=128, shuffle=True, num_workers=4, pin_memory=True, drop_last=True, persistent_workers=True)
            while True:
                for x, y in loader:
                    yield x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        on_gpu, labels_on_gpu = images.cuda().contiguous(memory_format=torch.channels_last), labels.cuda()
        while True:
            order = torch.randperm(len(images), device='cuda')
            for at in range(0, len(images) - 127, 128):
                index = order[at:at + 128]
                yield on_gpu[index], labels_on_gpu[index]

    source = batches()
    step = train
    if mode == 'graph':
        x, y = (t.clone() for t in next(source))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                train(x, y)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            train(x, y)

        def step(new_x, new_y):
            x.copy_(new_x)
            y.copy_(new_y)
            graph.replay()

    for _ in range(20):
        step(*next(source))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    for _ in range(steps):
        step(*next(source))
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    print(f'precision {precision} us_per_step {seconds / steps * 1e6:.1f} images_per_s {steps * 128 / seconds:.0f} '
          f'peak_mib {torch.cuda.max_memory_allocated() / 2**20:.1f}')


if __name__ == '__main__':
    main()
