#!/usr/bin/env python3
"""Makes types.safetensors: a tensor of each type that Spool reads, written by the format's own library.

Run with PyTorch and safetensors installed:  python3 tests/golden/make_types.py
"""
import os

import torch
from safetensors.torch import save_file

tensors = {
    'f64': torch.tensor([[1.5, -2.25], [1e300, float('inf')]], dtype=torch.float64),
    'f32': torch.arange(6, dtype=torch.float32).reshape(1, 2, 3, 1),
    'bf16': torch.tensor([0.5, -3.0], dtype=torch.bfloat16),
    'i64': torch.tensor([2**40, -1]),
    'i32': torch.tensor([-7], dtype=torch.int32),
    'u8': torch.tensor([0, 255, 128], dtype=torch.uint8),
    'bool': torch.tensor([True, False, True]),
    'scalar': torch.tensor(3.25),
    'empty': torch.zeros(0, 4),
    'élève "1"\n': torch.ones(1),
}
save_file(tensors, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'types.safetensors'), metadata={'made_by': 'make_types.py', 'note': 'naïve'})
