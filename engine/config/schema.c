/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema: every key of a config with its type, range, unit, default and help. Parsing, checks, overrides,
 * printing and docs/config.md all come from this table; rules between keys are in config_check.c. Knows
 * nothing of values. */
#include "engine/config/config.h"

#include <stddef.h>

#define CHOICE(key, words, preset, text)                                                                     \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_CHOICE, .choices = words, .default_text = preset, .unit = "",           \
        .help = text                                                                                         \
    }
#define INT(key, low, high, preset, u, text)                                                                 \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_INT, .default_text = preset, .min = low, .max = high, .unit = u,        \
        .help = text                                                                                         \
    }
#define FLOAT(key, low, high, preset, u, text)                                                               \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_FLOAT, .default_text = preset, .min = low, .max = high, .unit = u,      \
        .help = text                                                                                         \
    }
/* low and high themselves are not allowed when the flags say so */
#define FLOAT_OPEN(key, low, open_low, high, open_high, preset, u, text)                                     \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_FLOAT, .default_text = preset, .min = low, .max = high,                 \
        .min_exclusive = open_low, .max_exclusive = open_high, .unit = u, .help = text                       \
    }
#define BOOL(key, preset, text)                                                                              \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_BOOL, .default_text = preset, .unit = "", .help = text                  \
    }
#define STRING(key, preset, text)                                                                            \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_STRING, .default_text = preset, .unit = "", .help = text                \
    }
#define STRINGS(key, preset, text)                                                                           \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_STRINGS, .default_text = preset, .unit = "", .help = text               \
    }
#define INTS(key, low, high, preset, text)                                                                   \
    {                                                                                                        \
        .path = key, .type = CLT_CFG_INTS, .default_text = preset, .min = low, .max = high, .unit = "",      \
        .help = text                                                                                         \
    }

#define MANY 1e12      /* samples */
#define STEPS 16777216 /* longest run: the schedule is a table */
#define WIDE 16777216  /* widths, dimensions */

const clt_config_key clt_config_schema[] = {
    CHOICE("model.type", "mlp|graph|gpt", NULL,
           "mlp: a stack of linear layers described by model.hidden; graph: the layers of model.layers; gpt: "
           "GPT-2's decoder, described by model.layers, heads and channels"),
    INTS("model.hidden", 1, WIDE, "[128]", "mlp: width of each hidden layer; [] is a single linear layer"),
    CHOICE("model.activation", "relu|gelu|gelu_tanh|tanh|sigmoid|silu|auto", "\"auto\"",
           "mlp: activation after each hidden layer; gpt: inside each block (relu, gelu, gelu_tanh, silu); "
           "auto: "
           "relu for mlp, gelu_tanh for gpt"),
    FLOAT_OPEN("model.dropout", 0, false, 1, true, "0", "",
               "mlp: share of activations dropped after each hidden layer; gpt: after the embedding, on "
               "attention weights and on each branch of a block"),
    BOOL("model.bias", "true", "mlp: linear layers have a bias; gpt: linear layers and normalisations have"),
    INT("model.embedding", 0, WIDE, "0", "",
        "mlp: width of the embedding that integer inputs go through; 0: none"),
    INT("model.outputs", 0, WIDE, "0", "", "mlp: width of the last layer; 0: from the data"),
    CHOICE("model.loss", "cross_entropy|mse|l1|bce_with_logits", "\"cross_entropy\"",
           "mlp: what training minimises"),
    FLOAT_OPEN("model.label_smoothing", 0, false, 1, true, "0", "",
               "mlp: cross entropy: share of the target spread over all classes"),
    INT("model.ignore_index", -2147483648.0, 2147483647, "-100", "",
        "mlp: cross entropy: targets of this value do not count; -100: every target counts"),
    {.path = "model.layers",
     .type = CLT_CFG_LAYERS,
     .default_text = "[]",
     .min = 1,
     .max = 100000,
     .unit = "",
     .help = "gpt: number of blocks; graph: list of layers, each {\"op\": any op, \"name\": optional, "
             "\"inputs\": optional list of "
             "names, "
             "attributes ...}; without inputs a layer takes the one before it"},
    INT("model.heads", 0, 65536, "0", "", "gpt: attention heads of each block"),
    INT("model.channels", 0, WIDE, "0", "", "gpt: width of the residual stream, a multiple of model.heads"),
    INT("model.vocab", 0, WIDE, "0", "", "gpt: number of different tokens; 0: from the data"),
    INT("model.vocab_pad", 1, 65536, "64", "",
        "gpt: rows of the token table are rounded up to a multiple; the padding takes part in nothing"),
    BOOL("model.tied", "true", "gpt: the head uses the token table"),
    INT("model.context", 0, WIDE, "0", "tokens",
        "gpt: length of a sequence; above 0, text and tokens are read as sequences of it, each with the "
        "tokens "
        "that follow"),

    CHOICE("data.type", "idx|npy|raw|text|tokens|synthetic", NULL, "format of the data"),
    STRINGS("data.path", "[]",
            "training data: a file or a list of files; tokens: also folders and patterns of shards"),
    STRING("data.tokenizer", "\"\"",
           "text, tokens: bytes, or a folder or file of a BPE vocabulary (tokenizer.json, vocab.json with "
           "merges.txt); empty: bytes for text, the tokenizer.json beside the shards for tokens"),
    STRING("data.targets", "\"\"", "file of targets or labels (idx, npy, raw)"),
    STRINGS(
        "data.eval_path", "[]",
        "evaluation data; [] for text: a part of data.path, see data.split; [] for tokens: the val shards "
        "of the folder data.path, if any"),
    STRING("data.eval_targets", "\"\"", "file of evaluation targets (idx, npy, raw)"),
    INT("data.micro_batch", 1, WIDE, "32", "samples", "samples computed at once on one rank"),
    INT("data.global_batch", 0, 1e9, "0", "samples",
        "samples of one step over all ranks and accumulation steps; 0: data.micro_batch times ranks"),
    {.path = "data.workers",
     .type = CLT_CFG_AUTO_INT,
     .default_text = "\"auto\"",
     .min = 1,
     .max = 1024,
     .unit = "threads",
     .help = "loader threads of a rank; auto: 75 % of the cores divided by the ranks of this host"},
    INT("data.prefetch", 2, 64, "4", "micro-batches", "filled ahead of the device"),
    BOOL("data.shuffle", "true", "a new order of the training samples in every epoch"),
    FLOAT_OPEN("data.split", 0, false, 1, true, "0.1", "",
               "text: part of the text kept for evaluation when data.eval_path is empty; 0: none"),
    INT("data.window", 1, WIDE, "16", "bytes", "text: bytes of context before the byte to predict"),
    FLOAT("data.scale", -1e30, 1e30, "1", "", "input = (stored value * scale - mean) / std"),
    FLOAT("data.mean", -1e30, 1e30, "0", "", "see data.scale"),
    FLOAT_OPEN("data.std", 0, true, 1e30, false, "1", "", "see data.scale"),
    INT("data.samples", 1, MANY, "1024", "samples", "synthetic: number of different samples"),
    INTS("data.shape", 1, 2147483647, "[]", "raw, synthetic: shape of one input sample"),
    INT("data.classes", 0, WIDE, "10", "",
        "synthetic: number of classes; 0: targets are numbers (regression)"),
    INTS("data.target_shape", 1, 2147483647, "[]",
         "raw, synthetic regression: shape of one target; [] is a single number"),
    FLOAT("data.noise", 0, 1e30, "0.1", "", "synthetic: standard deviation of the noise added"),

    CHOICE("optimizer.type", "sgd|adam|adamw", "\"adamw\"",
           "adam: weight decay joins the gradient; adamw: it is decoupled"),
    FLOAT_OPEN("optimizer.learning_rate", 0, true, 1e6, false, "0.001", "",
               "peak learning rate, after warm-up"),
    FLOAT_OPEN("optimizer.momentum", 0, false, 1, true, "0", "", "sgd: momentum"),
    BOOL("optimizer.nesterov", "false", "sgd: Nesterov momentum"),
    FLOAT_OPEN("optimizer.beta1", 0, false, 1, true, "0.9", "", "adam, adamw: decay of the first moment"),
    FLOAT_OPEN("optimizer.beta2", 0, false, 1, true, "0.999", "", "adam, adamw: decay of the second moment"),
    FLOAT_OPEN("optimizer.eps", 0, true, 1, false, "1e-08", "",
               "adam, adamw: added to the root of the second moment"),
    FLOAT("optimizer.weight_decay", 0, 1e6, "0", "", "weight decay"),
    CHOICE("optimizer.decay", "matrices|all", "\"matrices\"",
           "which parameters decay: those of two or more dimensions, or all"),
    FLOAT("optimizer.clip", 0, 1e30, "0", "", "largest global norm of the gradients; 0: no clipping"),

    CHOICE("schedule.type", "constant|linear|cosine|step|wsd", "\"constant\"",
           "course of the learning rate after warm-up; wsd: constant, then down by 1 - sqrt at the end"),
    INT("schedule.warmup", 0, STEPS, "0", "steps", "linear rise from 0 to optimizer.learning_rate"),
    FLOAT("schedule.min_learning_rate", 0, 1e6, "0", "",
          "learning rate at the end of linear, cosine and wsd"),
    INT("schedule.step_every", 0, STEPS, "0", "steps", "step: interval between two multiplications"),
    FLOAT_OPEN("schedule.step_factor", 0, true, 1, false, "0.1", "", "step: factor of each multiplication"),
    INT("schedule.decay_steps", 0, STEPS, "0", "steps", "wsd: length of the final decay; 0: the last 20 %"),
    INT("schedule.horizon", 0, STEPS, "0", "steps",
        "length of the whole schedule; 0: as long as the training"),

    CHOICE("precision.mode", "f32|f16|bf16|auto", "\"f32\"",
           "storage of activations and of the products' weights; arithmetic, parameters and their gradients "
           "stay f32; auto: bf16 or f16 where the device has matrix units for it, else f32"),
    CHOICE("precision.loss_scaling", "auto|off|static|dynamic", "\"auto\"",
           "losses times a scale, gradients divided by it, so that small gradients survive 16 bits; auto: "
           "dynamic with f16, else off"),
    FLOAT("precision.loss_scale", 1e-30, 1e30, "65536", "",
          "the static scale, or where the dynamic one starts"),
    FLOAT("precision.growth", 1.001, 1e6, "2", "",
          "dynamic: factor after precision.growth_interval good steps in a row"),
    INT("precision.growth_interval", 1, 1e9, "2000", "steps", "see precision.growth"),
    FLOAT("precision.backoff", 1e-6, 0.999, "0.5", "",
          "dynamic: factor after a step whose gradients were not finite, which is skipped"),
    FLOAT("precision.min_loss_scale", 0, 1e30, "0", "", "dynamic: the scale never falls below it"),
    CHOICE("precision.matmul", "ieee|tf32", "\"ieee\"",
           "products of f32: ieee keeps all bits of their operands, tf32 rounds them to 10 bits of mantissa "
           "where "
           "the device has matrix units for that; sums are f32"),

    BOOL("parallel.deterministic", "true", "bitwise repeatable results"),
    CHOICE(
        "parallel.gradients", "f32|bf16|f16", "\"f32\"",
        "type of parameter gradients on their way between ranks; sums are f32; f16 only under a loss scale"),
    {.path = "parallel.tensor",
     .type = CLT_CFG_INT,
     .default_text = "1",
     .min = 1,
     .max = 1,
     .unit = "ranks",
     .help = "ranks that share one copy of the model",
     .later = "tensor parallelism comes in a later release"},

    INT("train.steps", 0, STEPS, "0", "steps", "length of the training; 0: train.epochs decides"),
    FLOAT_OPEN("train.epochs", 0, true, 1e6, false, "1", "epochs",
               "passes over the training data when train.steps is 0"),
    INT("train.seed", 0, 9223372036854775807.0, "1337", "", "seed of parameters, data order and dropout"),
    INT("train.eval_every", 0, STEPS, "0", "steps", "interval between evaluations; 0: only at the end"),
    INT("train.eval_batches", 0, MANY, "0", "micro-batches", "evaluate on the first so many only; 0: on all"),
    INT("train.max_nonfinite", 1, 1e9, "10", "steps",
        "skipped updates in a row (loss or gradients not finite) after which the run ends with code 6"),
    {.path = "train.recompute",
     .type = CLT_CFG_CHOICE,
     .choices = "none|gelu|block",
     .default_text = "\"none\"",
     .unit = "",
     .help =
         "activations computed again in the backward pass, for less memory: gelu: outputs of activations, "
         "dropout and norms; block: everything inside a block of the model"},
    CHOICE("train.fuse", "on|off", "\"on\"",
           "neighbouring layers become one kernel; off: every layer apart, to compare"),
    INT("train.log_every", 1, 1e9, "10", "steps",
        "interval between step lines that stay: on the console and in log.txt"),

    INT("checkpoint.every", 0, STEPS, "0", "steps",
        "interval between checkpoints; 0: by time (checkpoint.minutes) and at the end"),
    FLOAT("checkpoint.minutes", 0, 1e6, "15", "minutes",
          "a checkpoint whenever so much time has passed since the last one; 0: never"),
    INT("checkpoint.keep", 0, 1e6, "3", "checkpoints", "newest so many are kept; 0: all"),
    BOOL("checkpoint.final", "true", "a checkpoint at the end of the training"),
    INT("checkpoint.major", 0, STEPS, "0", "steps",
        "every step that is a multiple of it is kept for ever; 0: none"),
    BOOL("checkpoint.best", "false",
         "a checkpoint at each evaluation that is the best so far; the best one is kept"),

    CHOICE("log.level", "error|warn|info|debug|trace", "\"info\"",
           "which diagnostics stderr and log.txt get: warnings, and with debug why variants and records were "
           "refused"),

    BOOL("log.tensorboard", "false",
         "the run folder gets an event file for TensorBoard: curves, hyper-parameters, events as text"),
    INT("log.histograms", 0, STEPS, "0", "steps",
        "with log.tensorboard: interval between histograms of all gradients and parameters, which are read "
        "from "
        "the device then; 0: none"),

    STRING(
        "log.sample_prompt", "\"\"",
        "gpt: at each evaluation and at the end the model continues this text, which log.txt, metrics.jsonl, "
        "the report and TensorBoard show; empty: only with log.sample_every, from the beginning of a text"),
    INT("log.sample_every", 0, STEPS, "0", "steps",
        "gpt: interval between these texts; 0: at each evaluation if there is a log.sample_prompt, else "
        "never"),
    INT("log.sample_tokens", 1, 100000, "100", "tokens", "length of each of these texts"),

    STRING("device.spec", "\"\"",
           "platform:device as in 0:0, cpu, gpu, or a part of the device's name; empty: the first GPU, else "
           "the CPU"),
    CHOICE("device.tune", "off|cached|on", "\"cached\"",
           "variants and blocks of matrix products: off: the engine's own choice; cached: also what 'cltrain "
           "tune' has measured on this device; on: and what is missing is measured at the start"),
    FLOAT("device.tune_seconds", 0.1, 3600, "10", "seconds",
          "device.tune on: time for measuring at the start"),
    BOOL("device.timestamps", "true",
         "the device's queues note when commands ran, on GPUs only when this key is set or with --profile, "
         "because it may cost time there; without: device_busy, h2d_gbs and d2h_gbs of the metrics are null"),

    {.path = NULL},
};
