# SPDX-License-Identifier: Apache-2.0
"""Optimizers that torch.optim does not have, for make_golden.py: written as their papers and the implementations named say,
with PyTorch's operations. And torch.optim.Muon beside torch.optim.AdamW, as models are trained with it."""
import unittest.mock

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


def adapts(p, group):
    """Without trust_all, as the implementations do: parameters without weight decay take the learning rate as it is."""
    return group["trust_all"] or p.dim() > 1


class Lars(torch.optim.Optimizer):
    """You and others 2017; momentum, decay and trust ratio as in NVIDIA's apex (LARC) and PyTorch Lightning's bolts."""

    def __init__(self, params, lr, momentum, trust, eps, weight_decay=0.0, trust_all=False):
        super().__init__(params, dict(lr=lr, momentum=momentum, trust=trust, eps=eps, weight_decay=weight_decay,
                                      trust_all=trust_all))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            decay = group["weight_decay"]
            for p in group["params"]:
                d = p.grad + decay * p
                norm, grad_norm = p.norm(), p.grad.norm()
                if adapts(p, group) and norm > 0 and grad_norm > 0:
                    d = d * (group["trust"] * norm / (grad_norm + decay * norm + group["eps"]))
                m = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                m.mul_(group["momentum"]).add_(d)
                p.add_(m, alpha=-group["lr"])


class Lamb(torch.optim.Optimizer):
    """You and others 2020; as NVIDIA's apex has it (FusedLAMB), trust_all being its use_nvlamb, without the clipping that is
    part of it. trust_limit: the upper bound that the paper's phi sets to a parameter's norm, 0 for none."""

    def __init__(self, params, lr, betas, eps, weight_decay=0.0, trust_all=False, trust_limit=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, trust_all=trust_all,
                                      trust_limit=trust_limit))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                m = state.setdefault("exp_avg", torch.zeros_like(p)).lerp_(p.grad, 1 - beta1)
                v = state.setdefault("exp_avg_sq", torch.zeros_like(p))
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                m_hat, v_hat = m / (1 - beta1 ** state["step"]), v / (1 - beta2 ** state["step"])
                u = m_hat / (v_hat.sqrt() + group["eps"]) + group["weight_decay"] * p
                norm, u_norm, ratio = p.norm(), u.norm(), 1.0
                if group["trust_limit"]:
                    norm = norm.clamp(max=group["trust_limit"])
                if adapts(p, group) and norm > 0 and u_norm > 0:
                    ratio = norm / u_norm
                p.sub_(group["lr"] * ratio * u)


class Muon:
    """torch.optim.Muon for the matrices `hidden`, with products in the parameters' own type, where it rounds to bfloat16;
    torch.optim.AdamW at `others` times the learning rate for all else."""

    def __init__(self, groups, hidden, lr, momentum, nesterov, adjust_lr_fn, betas, eps, others):
        inside = {id(p) for p in hidden}
        take = lambda inner: [g | {"params": kept} for g in groups if (kept := [p for p in g["params"] if (id(p) in inside) == inner])]
        self.both = (torch.optim.Muon(take(True), lr=lr, momentum=momentum, nesterov=nesterov, adjust_lr_fn=adjust_lr_fn),
                     torch.optim.AdamW(take(False), lr=others * lr, betas=betas, eps=eps))
        self.dtype = hidden[0].dtype
        self.param_groups = self.both[0].param_groups + self.both[1].param_groups

    def zero_grad(self):
        for inner in self.both:
            inner.zero_grad()

    def step(self):
        with unittest.mock.patch.object(torch, "bfloat16", self.dtype):
            for inner in self.both:
                inner.step()
