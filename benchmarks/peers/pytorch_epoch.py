"""One epoch and more of the example's recipe in PyTorch on the CPU, data in memory: the peer of examples/cifar10.

usage: pytorch_epoch.py FOLDER THREADS EPOCHS [channels_last]     prints seconds per epoch, training only, and the test accuracy
"""
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.fc1, self.fc2 = nn.Linear(64 * 8 * 8, 256), nn.Linear(256, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def read(folder, names):
    rows = np.concatenate([np.fromfile(f'{folder}/{n}', np.uint8).reshape(-1, 3073) for n in names])
    return torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(rows[:, 0].astype(np.int64))


def main():
    folder, threads, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    layout = torch.channels_last if 'channels_last' in sys.argv[4:] else torch.contiguous_format
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    images, labels = read(folder, [f'data_batch_{i}.bin' for i in range(1, 6)])
    test_images, test_labels = read(folder, ['test_batch.bin'])
    model = ConvNet().to(memory_format=layout)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for _ in range(epochs):
        start = time.perf_counter()
        order = torch.randperm(len(images))
        for at in range(0, len(images), 128):
            index = order[at:at + 128]
            x = (images[index].float() / 127.5 - 1).to(memory_format=layout)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels[index])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        times.append(time.perf_counter() - start)
    model.eval()
    right = 0
    with torch.no_grad():
        for at in range(0, len(test_images), 500):
            x = (test_images[at:at + 500].float() / 127.5 - 1).to(memory_format=layout)
            right += (model(x).argmax(1) == test_labels[at:at + 500]).sum().item()
    print(f'seconds {min(times):.3f} accuracy {right / len(test_images):.4f}')


if __name__ == '__main__':
    main()
