"""Inference of the ConvNet in ONNX Runtime on the CPU; prints "RESULT <median> <min> us/image <peak memory in MB>".

usage: onnxruntime_infer.py THREADS REPEATS BATCH
"""
import sys
import tempfile

import numpy as np
import onnxruntime
import torch

from pytorch_epoch import ConvNet
from pytorch_workload import report


def main():
    threads, repeats, batch = map(int, sys.argv[1:4])
    x = torch.randn(batch, 3, 32, 32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = f'{folder}/convnet.onnx'
        torch.onnx.export(ConvNet().eval(), x, path, dynamo=False, input_names=['x'])
        session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    feed = {'x': np.ascontiguousarray(x.numpy())}
    report(lambda: session.run(None, feed), repeats, batch, 'us/image')


if __name__ == '__main__':
    main()
