# SPDX-License-Identifier: Apache-2.0
"""One training step of GPT-2, of a Llama, of a BERT, of an MLP or of a residual network, or a matrix product, in PyTorch, timed the way `cltrain bench` times ours.

It exists so that the benchmarks can put a peer beside us; the product and its tests need no Python. It runs one setting per
process (CPU or GPU, f32 or autocast, eager or compiled, which AdamW, what happens to gradients) and prints one JSON object: the
settings, the milliseconds of every step, the peak resident set, on a GPU also the most memory its tensors took. The caller tries the settings and keeps the best. It must run with old and new releases
of PyTorch, so everything that is not in 1.13 is asked for before it is used. It knows nothing of cltrain.
"""
import argparse
import json
import math
import os
import resource
import sys
import time

if len(sys.argv) > 1 and sys.argv[1] != "--probe":
    # Set before the import, since thread pools read these only once.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "2")

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    print(f"no PyTorch: {error}")
    sys.exit(3)


DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Attention(nn.Module):
    def __init__(self, channels, heads, context, form):
        super().__init__()
        self.heads, self.form = heads, form
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        if form == "matrix":
            mask = torch.zeros(1, context, context)
            mask.masked_fill_(torch.ones(context, context).triu(1).bool(), float("-inf"))
            self.register_buffer("mask", mask)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, c // self.heads).transpose(1, 2) for u in self.qkv(x).split(c, dim=2))
        if self.form == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # scale and mask inside the product, the fewest passes that releases without SDPA allow
            d = c // self.heads
            q, k, v = (u.reshape(b * self.heads, t, d) for u in (q, k, v))
            p = torch.baddbmm(self.mask[:, :t, :t], q, k.transpose(1, 2), alpha=1 / math.sqrt(d))
            y = torch.bmm(F.softmax(p, dim=-1), v).view(b, self.heads, t, d)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, channels, heads, context, form):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention = Attention(channels, heads, context, form)
        self.fc = nn.Linear(channels, 4 * channels)
        self.fcproj = nn.Linear(4 * channels, channels)

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.fcproj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte = nn.Embedding(a.vocab, a.channels)
        self.wpe = nn.Embedding(a.context, a.channels)
        self.blocks = nn.ModuleList(Block(a.channels, a.heads, a.context, a.attention) for _ in range(a.layers))
        self.ln = nn.LayerNorm(a.channels)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class RMSNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    """Queries, keys and values in one product, gate and up in another: faster than the published five."""

    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.dim = a.heads, a.kv_heads, a.channels // a.heads
        self.norm1, self.norm2 = RMSNorm(a.channels), RMSNorm(a.channels)
        self.qkv = nn.Linear(a.channels, (a.heads + 2 * a.kv_heads) * self.dim, bias=False)
        self.proj = nn.Linear(a.channels, a.channels, bias=False)
        self.gate_up = nn.Linear(a.channels, 2 * a.inner, bias=False)
        self.down = nn.Linear(a.inner, a.channels, bias=False)
        self.gqa = "enable_gqa" in (F.scaled_dot_product_attention.__doc__ or "")

    def turn(self, x, cos, sin):
        low, high = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-high, low), dim=-1) * sin

    def attention(self, x, cos, sin):
        b, t, _ = x.shape
        widths = [h * self.dim for h in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (u.view(b, t, -1, self.dim).transpose(1, 2) for u in self.qkv(x).split(widths, dim=2))
        q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
        if self.kv_heads == self.heads:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.gqa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            share = self.heads // self.kv_heads
            y = F.scaled_dot_product_attention(q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1), is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, -1))

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.table = nn.Embedding(a.vocab, a.channels)
        self.blocks = nn.ModuleList(LlamaBlock(a) for _ in range(a.layers))
        self.norm = RMSNorm(a.channels)
        dim = a.channels // a.heads
        angles = torch.arange(a.context)[:, None] * 1e5 ** (-torch.arange(0, dim, 2) / dim)
        self.register_buffer("cos", torch.cat((angles, angles), dim=-1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), dim=-1).sin())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.table.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter. A fused layer has one adapter where PEFT has two or three: less work than PEFT's."""

    def __init__(self, base, rank):
        super().__init__()
        self.base, self.scale = base, 16 / rank
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.02)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.down) * self.scale, self.up)


def add_adapters(model, rank):
    """Freezes the model and puts an adapter beside each linear layer of its blocks."""
    for p in model.parameters():
        p.requires_grad_(False)
    for block in model.blocks:
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(block, name, Adapted(layer, rank))


class BertBlock(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads = a.heads
        self.qkv, self.proj = nn.Linear(a.channels, 3 * a.channels), nn.Linear(a.channels, a.channels)
        self.fc, self.fcproj = nn.Linear(a.channels, a.inner), nn.Linear(a.inner, a.channels)
        self.ln1, self.ln2 = nn.LayerNorm(a.channels, eps=1e-12), nn.LayerNorm(a.channels, eps=1e-12)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, c // self.heads).transpose(1, 2) for u in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v)
        x = self.ln1(x + self.proj(y.transpose(1, 2).reshape(b, t, c)))
        return self.ln2(x + self.fcproj(F.gelu(self.fc(x))))


class Bert(nn.Module):
    """BERT with both heads. Logits are computed at the masked places alone, and no row is padded, so attention needs no mask."""

    def __init__(self, a):
        super().__init__()
        self.table, self.kinds = nn.Embedding(a.vocab, a.channels), nn.Embedding(2, a.channels)
        self.places = nn.Embedding(512, a.channels)
        self.norm = nn.LayerNorm(a.channels, eps=1e-12)
        self.blocks = nn.ModuleList(BertBlock(a) for _ in range(a.layers))
        self.pooler, self.follows = nn.Linear(a.channels, a.channels), nn.Linear(a.channels, 2)
        self.transform, self.masked_norm = nn.Linear(a.channels, a.channels), nn.LayerNorm(a.channels, eps=1e-12)
        self.shift = nn.Parameter(torch.zeros(a.vocab))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, kinds, places, targets, follows):
        x = self.norm(self.table(tokens) + self.kinds(kinds) + self.places(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.blocks:
            x = block(x)
        masked = x.flatten(0, 1)[places]
        logits = F.linear(self.masked_norm(F.gelu(self.transform(masked))), self.table.weight, self.shift)
        pair = self.follows(torch.tanh(self.pooler(x[:, 0])))
        return F.cross_entropy(logits, targets) + F.cross_entropy(pair, follows)


def draw_pairs(a):
    """A batch of BERT's pre-training: 15 % of the places of each row are masked."""
    count = round(0.15 * a.context)
    places = torch.cat([row * a.context + torch.randperm(a.context)[:count] for row in range(a.batch)])
    return (torch.randint(a.vocab, (a.batch, a.context)), torch.randint(2, (a.batch, a.context)), places,
            torch.randint(a.vocab, (len(places),)), torch.randint(2, (a.batch,)))


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))

    def forward(self, x, targets):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x), targets)


class ResNet(nn.Module):
    """torchvision's network; with --stem cifar the first layer of networks for images of 32 x 32."""

    def __init__(self, a):
        super().__init__()
        import torchvision
        self.net = getattr(torchvision.models, a.model)(num_classes=a.classes)
        if a.stem == "cifar":
            self.net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
            self.net.maxpool = nn.Identity()

    def forward(self, x, targets):
        return F.cross_entropy(self.net(x), targets)


def make_model(a):
    torch.manual_seed(1)
    if a.model.startswith("resnet"):
        form = torch.channels_last if a.channels_last else torch.contiguous_format
        draw = lambda: (torch.randn(a.batch, 3, a.image, a.image).to(memory_format=form),
                        torch.randint(a.classes, (a.batch,)))
        model = ResNet(a).to(memory_format=form)
    elif a.model == "mlp":
        draw = lambda: (torch.randn(a.batch, a.sizes[0]), torch.randint(a.sizes[-1], (a.batch,)))
        model = MLP(a.sizes)
    elif a.model == "bert":
        draw, model = lambda: draw_pairs(a), Bert(a)
    else:
        tokens = lambda: torch.randint(min(a.vocab, 50257), (a.batch, a.context))
        draw = lambda: (tokens(), tokens())
        model = Llama(a) if a.model == "llama" else GPT2(a)
    if a.lora_rank:
        add_adapters(model, a.lora_rank)
    return model.to(a.device), [tuple(t.to(a.device) for t in draw()) for _ in range(4)]


def synchronize(a):
    if a.device != "cpu":
        torch.cuda.synchronize()


def make_product(a):
    """A step that multiplies fresh random matrices of --sizes M-N-K, and nothing else; the layout is ours: nn, nt, tn."""
    m, n, k = a.sizes
    torch.manual_seed(1)
    storage = DTYPES[a.dtype]
    torch.backends.cuda.matmul.allow_tf32 = a.tf32
    left = [torch.rand((m, k) if a.layout[0] == "n" else (k, m), device=a.device) * 2 - 1 for _ in range(2)]
    right = [torch.rand((k, n) if a.layout[1] == "n" else (n, k), device=a.device) * 2 - 1 for _ in range(2)]
    left = [t.to(storage) if a.layout[0] == "n" else t.to(storage).t() for t in left]
    right = [t.to(storage) if a.layout[1] == "n" else t.to(storage).t() for t in right]
    out = torch.empty((m, n), device=a.device, dtype=storage)

    def step(i):
        for _ in range(a.repeat):
            torch.matmul(left[i % 2], right[i % 2], out=out)
        synchronize(a)
        return 0.0

    return step


def make_optimizer(a, model):
    if a.model.startswith("resnet"):
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
    trained = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in trained if p.dim() > 1]
    plain = [p for p in trained if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    form = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[a.optimizer]
    return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), **form)


def clip(parameters, limit, foreach):
    if hasattr(nn.utils, "get_total_norm"):
        nn.utils.clip_grad_norm_(parameters, limit, foreach=foreach)
    elif foreach and hasattr(torch, "_foreach_norm"):  # 1.13: its own function goes tensor by tensor
        grads = [p.grad for p in parameters]
        norm = torch.norm(torch.stack(torch._foreach_norm(grads)))
        torch._foreach_mul_(grads, min(1.0, limit / (float(norm) + 1e-6)))
    else:
        nn.utils.clip_grad_norm_(parameters, limit)


def make_step(a, model, batches):
    optimizer = make_optimizer(a, model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    plain = torch.compile(model, mode=a.compile_mode) if a.mode == "compile" else model
    torch.backends.cuda.matmul.allow_tf32 = a.tf32
    # f16 needs the scaler, as ours does; bf16 has the range of f32.
    scaler = torch.amp.GradScaler(a.device) if a.dtype == "f16" else None

    def loss_of(*batch):
        if a.dtype == "f32":
            return plain(*batch)
        with torch.autocast(a.device, dtype=DTYPES[a.dtype]):
            return plain(*batch)

    def update():
        if a.clip > 0 and a.clip_form == "fused":
            # The clipping factor goes into the fused AdamW, which divides by grad_scale: this saves a pass
            # over the gradients.
            norm = nn.utils.get_total_norm([p.grad for p in parameters], foreach=True)
            optimizer.grad_scale = torch.clamp(norm / a.clip, min=1.0)
            optimizer.found_inf = torch.zeros(())
        elif a.clip > 0:
            if scaler:
                scaler.unscale_(optimizer)
            clip(parameters, a.clip, a.clip_form == "foreach")
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()

    if a.compile_update:
        update = torch.compile(update)

    def step(i):
        loss = loss_of(*batches[i % len(batches)])
        (scaler.scale(loss) if scaler else loss).backward()
        update()
        optimizer.zero_grad(set_to_none=a.grads == "none")
        return loss.item()

    return step


def profile_table(step):
    """Operators by their own time: (name, calls, ms), for one step."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU]) as p:
        step(0)
    rows = [(e.key, e.count, e.self_cpu_time_total / 1e3) for e in p.key_averages()]
    return sorted(rows, key=lambda row: -row[2])[:40]


def arguments():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--probe", action="store_true", help="print the release and what it can do, then end")
    a.add_argument("--model", choices=("gpt2", "llama", "bert", "mlp", "resnet18", "resnet50", "matmul"), default="gpt2")
    a.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    a.add_argument("--dtype", choices=tuple(DTYPES), default="f32", help="autocast to it; of a product: the storage")
    a.add_argument("--tf32", action="store_true", help="f32 products may use tf32 units")
    a.add_argument("--layout", choices=("nn", "nt", "tn"), default="nn", help="of a product")
    a.add_argument("--repeat", type=int, default=1, help="products a step")
    a.add_argument("--batch", type=int, default=4)
    a.add_argument("--context", type=int, default=64)
    a.add_argument("--layers", type=int, default=12)
    a.add_argument("--heads", type=int, default=12)
    a.add_argument("--channels", type=int, default=768)
    a.add_argument("--kv-heads", type=int, default=12, help="of a llama")
    a.add_argument("--inner", type=int, default=2048, help="width of the feed-forward part of a llama or bert")
    a.add_argument("--lora-rank", type=int, default=0, help="of a llama or bert: train adapters of this rank over frozen weights")
    a.add_argument("--vocab", type=int, default=50304)
    a.add_argument("--image", type=int, default=224, help="height and width of an image")
    a.add_argument("--classes", type=int, default=1000)
    a.add_argument("--stem", choices=("imagenet", "cifar"), default="imagenet")
    a.add_argument("--channels-last", action="store_true", help="memory format of images and weights")
    a.add_argument("--sizes", type=lambda s: [int(x) for x in s.split("-")], default=[784, 512, 512, 10])
    a.add_argument("--mode", choices=("eager", "compile"), default="eager")
    a.add_argument("--compile-mode", default="default")
    a.add_argument("--compile-update", action="store_true", help="also compile clipping and AdamW")
    a.add_argument("--attention", choices=("sdpa", "matrix"), default="sdpa")
    a.add_argument("--optimizer", choices=("fused", "foreach", "loop"), default="fused")
    a.add_argument("--grads", choices=("none", "kept"), default="none", help="zero_grad(set_to_none) or zeroed in place")
    a.add_argument("--clip", type=float, default=1.0)
    a.add_argument("--clip-form", choices=("foreach", "loop", "fused"), default="foreach")
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--steps", type=int, default=5)
    a.add_argument("--warmup", type=int, default=2)
    a.add_argument("--seconds", type=float, default=0, help="end the measured steps early after this time")
    a.add_argument("--flush-denormal", action="store_true")
    a.add_argument("--profile", action="store_true")
    return a.parse_args()


def probe():
    blas = "mkl" if torch.backends.mkl.is_available() else "blas"
    features = ["sdpa"] * hasattr(F, "scaled_dot_product_attention") + ["compile"] * hasattr(torch, "compile")
    features += ["fused"] * (int(torch.__version__.split(".")[0]) >= 2) + ["foreach_norm"] * hasattr(torch, "_foreach_norm")
    features += ["cuda"] * torch.cuda.is_available()
    print(torch.__version__, blas, " ".join(features))


def main():
    a = arguments()
    if a.probe:
        return probe()
    if a.dtype == "f16" and a.clip_form == "fused":
        sys.exit("--clip-form fused has no place for a loss scale: use another with --dtype f16")
    torch.set_num_threads(a.threads)
    if a.flush_denormal:
        torch.set_flush_denormal(True)
    step = make_product(a) if a.model == "matmul" else make_step(a, *make_model(a))
    start = time.perf_counter()
    for i in range(a.warmup):
        loss = step(i)
    warm = time.perf_counter() - start
    ms = []
    start = time.perf_counter()
    for i in range(a.steps):
        before = time.perf_counter()
        loss = step(i)
        ms.append((time.perf_counter() - before) * 1e3)
        if a.seconds and time.perf_counter() - start > a.seconds:
            break
    out = {k: v for k, v in vars(a).items() if k not in ("probe", "profile")}
    if a.device != "cpu":
        out.update(gpu=torch.cuda.get_device_name(), device_mib=round(torch.cuda.max_memory_allocated() / 1048576, 1))
    if a.model == "matmul":
        out.update(gflops=round(2 * math.prod(a.sizes) * a.repeat / min(ms) / 1e6, 1))
    out.update(torch=torch.__version__, loss=loss, warmup_s=round(warm, 2), ms=[round(v, 3) for v in ms],
               step_ms=round(sorted(ms)[len(ms) // 2], 3),
               peak_rss_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1))
    if a.profile:
        out["operators"] = profile_table(step)
    print(json.dumps(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
