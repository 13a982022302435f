# SPDX-License-Identifier: Apache-2.0
"""Optimizers that torch.optim does not have, for make_golden.py: written as their papers and the implementations named say,
with PyTorch's operations."""
import torch


class Lion(torch.optim.Optimizer):
    """Chen and others 2023, and their implementation (google/automl, lion_pytorch.py)."""

    def __init__(self, params, lr, betas, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((m * beta1 + p.grad * (1 - beta1)).sign(), alpha=-group["lr"])
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)
