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


class Block(torch.nn.Module):
    """A residual block of a narrow ResNet, with a projection where the number of channels changes."""

    def __init__(self, channels, out):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(out)
        self.shortcut = torch.nn.Sequential(torch.nn.Conv2d(channels, out, 1), torch.nn.ReLU()) if channels != out else None
        self.register_buffer('absent', None)


class Net(torch.nn.Module):
    """ResNet-like: modules in modules, None as a module, a buffer and a parameter."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 2, 3).to(memory_format=torch.channels_last)
        self.layer1 = torch.nn.Sequential(Block(2, 2), Block(2, 4))
        self.fc = torch.nn.Linear(4, 3).half()


class Gpt(torch.nn.Module):
    """GPT-like: a table that is tied to the output, a module under two names, and a mask that is not saved."""

    def __init__(self):
        super().__init__()
        self.wte = torch.nn.Embedding(7, 4)
        self.h = torch.nn.ModuleList([torch.nn.ModuleDict({'ln': torch.nn.LayerNorm(4), 'mlp': torch.nn.Linear(4, 4)})
                                      for _ in range(2)])
        self.first = self.h[0]
        self.scales = torch.nn.ParameterList([torch.ones(2), torch.zeros(3)])
        self.lm_head = torch.nn.Linear(4, 7, bias=False)
        self.lm_head.weight = self.wte.weight
        self.register_buffer('mask', torch.ones(5, 5).tril(), persistent=False)
        self.register_buffer('positions', torch.arange(5))


def modules():
    """Whole modules beside their state dicts."""
    torch.manual_seed(5)
    net, gpt = Net(), Gpt()
    for name, module in ('resnet', net), ('gpt', gpt):
        save_file({k: v.detach().clone().contiguous() for k, v in module.state_dict().items()},
                  put(f'module_{name}.safetensors'))
    torch.save(net, put('module_resnet.pth'))
    torch.save(net, put('module_old.pth'), _use_new_zipfile_serialization=False)
    torch.save(gpt, put('module_gpt.pth'), pickle_protocol=4)
    torch.save({'model': gpt, 'teacher': net, 'epoch': 3}, put('module_entries.pth'))


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
    modules()

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
