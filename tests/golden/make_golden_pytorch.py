#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of torch.save in data/pytorch, with the same tensors as safetensors.

Written with PyTorch 2.15.0 and safetensors 0.8.0. usage: make_golden_pytorch.py
"""
import argparse
import json
import os

import torch
from safetensors.torch import load_file, save_file

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data')


def put(name):
    return os.path.join(DATA, 'pytorch', name)


def views():
    """Every kind of view and every type: transposed, expanded, strided, tied, parameters, empty, scalars."""
    torch.manual_seed(3)
    t = torch.arange(24.0).reshape(4, 6) / 7
    return {
        'base': t, 'tied': t, 'transposed': t.t(), 'strided': t[1:3, ::2], 'row': torch.nn.Parameter(t[2]),
        'expanded': torch.ones(3, 1).expand(3, 5), 'permuted': torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2),
        'empty': torch.zeros(0, 3), 'scalar': torch.tensor(3.5), 'half': t.half(), 'brain': t.bfloat16(),
        'double': t.double().t(), 'long': torch.arange(5), 'int': torch.arange(3, dtype=torch.int32),
        'byte': torch.arange(4, dtype=torch.uint8), 'bool': torch.tensor([True, False]),
    }


def main():
    os.makedirs(put(''), exist_ok=True)
    tensors = views()
    save_file({k: v.detach().clone().contiguous() for k, v in tensors.items()}, put('views.safetensors'))
    torch.save(tensors, put('views.pth'))
    torch.save(tensors, put('views_old.pth'), _use_new_zipfile_serialization=False)
    torch.save(tensors, put('views_4.pth'), pickle_protocol=4)

    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    weights = {'module.' + k: v for k, v in layer.state_dict().items()}
    torch.save({'model': weights, 'optimizer': optimizer.state_dict(), 'epoch': torch.tensor(3),
                'args': argparse.Namespace(lr=0.1)}, put('checkpoint.pth'))
    torch.save({'a': weights, 'b': weights}, put('two.pth'))
    torch.save(layer, put('module.pth'))

    torch.save(load_file(os.path.join(DATA, 'hf_tied', 'model.safetensors')), put('hf_tied.bin'))
    with open(os.path.join(DATA, 'hf_shards', 'model.safetensors.index.json'), encoding='utf-8') as file:
        index = json.load(file)
    shards = sorted(set(index['weight_map'].values()))
    names = {shard: shard.replace('model-', 'pytorch_model-').replace('.safetensors', '.bin') for shard in shards}
    for shard, name in names.items():
        torch.save(load_file(os.path.join(DATA, 'hf_shards', shard)), put(name),
                   _use_new_zipfile_serialization=shard != shards[0])
    index['weight_map'] = {k: names[v] for k, v in index['weight_map'].items()}
    with open(put('pytorch_model.bin.index.json'), 'w', encoding='utf-8') as file:
        json.dump(index, file, indent=1)
        file.write('\n')


if __name__ == '__main__':
    main()
