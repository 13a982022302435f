/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of other tools' names for keys (Hugging Face's Trainer and model configs, nanoGPT, PyTorch
 * Lightning, Keras, DeepSpeed), and the lines to write here instead. */
#include "engine/config/config_foreign.h"

#include <stdio.h>
#include <string.h>

#include "engine/config/config_internal.h"

#define SAME(name_, path_, note_)                                                                            \
    {                                                                                                        \
        .name = name_, .path = path_, .note = note_, .carry = CLT_CARRY_SAME                                 \
    }
#define NONE(name_, path_, note_)                                                                            \
    {                                                                                                        \
        .name = name_, .path = path_, .note = note_, .carry = CLT_CARRY_NONE                                 \
    }
#define WORDS(name_, path_, words_, note_)                                                                   \
    {                                                                                                        \
        .name = name_, .path = path_, .words = words_, .note = note_, .carry = CLT_CARRY_WORDS               \
    }

#define MICRO "samples computed at the same time; data.global_batch is the number of samples of one step"
#define GLOBAL                                                                                               \
    "samples of one step over all ranks; data.micro_batch is how many are computed at the same time"
#define ACCUMULATE "it is data.micro_batch times the accumulation steps times the ranks"
#define BLOCKS "the number of blocks of a gpt or llama; for an mlp see model.hidden"
#define WIDTH "the width of a gpt or llama; an mlp has a list, model.hidden"
#define INNER "the width of a llama's feed-forward part; a gpt's is always four times model.channels"
#define CLASSES                                                                                              \
    "the width of an mlp's last layer; resnet, cnn3d and unet3d have model.classes; a graph says it in its " \
    "last linear layer"
#define RATIO "it counts steps, not a share of them"
#define MODE "the precision in which activations and the products' weights are kept"
#define FOLDER "it is not a key: name the run folder with --out DIR"
#define RESUME "it is not a key: use --resume auto, or --resume DIR"
#define INIT "the path of the weights to start from, which --init PATH names as well"
#define NOT_NEEDED "there is no such key, and none is needed: kernels are always compiled and kept"
#define RANKS "there is no such key: cltrain launch --devices 2 CONFIG trains on two devices"
#define DEVICE_WORDS "cuda=gpu|cuda:0=gpu|mps=gpu|gpu=gpu|xpu=gpu|opencl=gpu|cpu=cpu"
#define TYPE_WORDS                                                                                           \
    "float32=f32|fp32=f32|f32=f32|32=f32|no=f32|float16=f16|fp16=f16|f16=f16|half=f16|16=f16|bfloat16=bf16|" \
    "bf16=bf16|16-mixed=f16|bf16-mixed=bf16|torch.float32=f32|torch.float16=f16|torch.bfloat16=bf16"
#define SCHEDULE_WORDS                                                                                       \
    "linear=linear|cosine=cosine|constant=constant|constant_with_warmup=constant|none=constant|"             \
    "step=step|steplr=step|cosineannealinglr=cosine|warmup_stable_decay=wsd|wsd=wsd"
#define OPTIMIZER_WORDS                                                                                      \
    "adam=adam|adamw=adamw|sgd=sgd|adamw_torch=adamw|adamw_torch_fused=adamw|adamw_hf=adamw|"                \
    "torch.optim.adamw=adamw|torch.optim.adam=adam|torch.optim.sgd=sgd|fusedadam=adamw|fused_adam=adamw|"    \
    "lion=lion|lion_32bit=lion|lars=lars|larc=lars|lamb=lamb|fusedlamb=lamb|fused_lamb=lamb|nvlamb=lamb|"    \
    "muon=muon|torch.optim.muon=muon|muonwithauxadam=muon"

static const clt_foreign_key foreign_keys[] = {
    /* optimizer */
    SAME("lr", "optimizer.learning_rate", NULL),
    SAME("learning_rate", "optimizer.learning_rate", NULL),
    SAME("max_lr", "optimizer.learning_rate", NULL),
    SAME("peak_lr", "optimizer.learning_rate", NULL),
    SAME("base_lr", "optimizer.learning_rate", NULL),
    SAME("wd", "optimizer.weight_decay", NULL),
    SAME("l2", "optimizer.weight_decay", NULL),
    SAME("weight_decay", "optimizer.weight_decay", NULL),
    SAME("max_grad_norm", "optimizer.clip", NULL),
    SAME("grad_clip", "optimizer.clip", NULL),
    SAME("clip_grad", "optimizer.clip", NULL),
    SAME("clip_grad_norm", "optimizer.clip", NULL),
    SAME("gradient_clip", "optimizer.clip", NULL),
    SAME("gradient_clip_val", "optimizer.clip", NULL),
    SAME("gradient_clipping", "optimizer.clip", NULL),
    SAME("ema_decay", "optimizer.ema", NULL),
    SAME("model_ema_decay", "optimizer.ema", NULL),
    SAME("adam_beta1", "optimizer.beta1", NULL),
    SAME("adam_beta2", "optimizer.beta2", NULL),
    NONE("betas", "optimizer.beta1", "the second one is optimizer.beta2"),
    NONE("adam_betas", "optimizer.beta1", "the second one is optimizer.beta2"),
    SAME("adam_epsilon", "optimizer.eps", NULL),
    SAME("adam_eps", "optimizer.eps", NULL),
    SAME("epsilon", "optimizer.eps", NULL),
    WORDS("optim", "optimizer.type", OPTIMIZER_WORDS, NULL),
    WORDS("opt", "optimizer.type", OPTIMIZER_WORDS, NULL),
    WORDS("optimizer", "optimizer.type", OPTIMIZER_WORDS, NULL),
    WORDS("optimizer_type", "optimizer.type", OPTIMIZER_WORDS, NULL),

    /* data and batches */
    SAME("batch_size", "data.micro_batch", MICRO),
    SAME("bs", "data.micro_batch", MICRO),
    SAME("batch", "data.micro_batch", MICRO),
    SAME("batchsize", "data.micro_batch", MICRO),
    SAME("micro_batch_size", "data.micro_batch", MICRO),
    SAME("mini_batch_size", "data.micro_batch", MICRO),
    SAME("train_micro_batch_size_per_gpu", "data.micro_batch", MICRO),
    SAME("per_device_train_batch_size", "data.micro_batch", MICRO),
    SAME("per_gpu_train_batch_size", "data.micro_batch", MICRO),
    SAME("per_device_eval_batch_size", "data.micro_batch", "training and evaluation use the same"),
    SAME("eval_batch_size", "data.micro_batch", "training and evaluation use the same"),
    SAME("train_batch_size", "data.global_batch", GLOBAL),
    SAME("global_batch_size", "data.global_batch", GLOBAL),
    SAME("total_batch_size", "data.global_batch", GLOBAL),
    NONE("gradient_accumulation_steps", "data.global_batch", ACCUMULATE),
    NONE("grad_accumulation_steps", "data.global_batch", ACCUMULATE),
    NONE("grad_accum", "data.global_batch", ACCUMULATE),
    NONE("accumulate_grad_batches", "data.global_batch", ACCUMULATE),
    NONE("accumulation_steps", "data.global_batch", ACCUMULATE),
    SAME("num_workers", "data.workers", NULL),
    SAME("dataloader_num_workers", "data.workers", NULL),
    SAME("prefetch_factor", "data.prefetch", NULL),
    SAME("dataset", "data.path", "a file, or a list of files"),
    SAME("data_dir", "data.path", "a file, or a list of files"),
    SAME("data_path", "data.path", NULL),
    SAME("dataset_path", "data.path", NULL),
    SAME("train_file", "data.path", NULL),
    SAME("train_data", "data.path", NULL),
    SAME("val_data", "data.eval_path", NULL),
    SAME("validation_file", "data.eval_path", NULL),
    SAME("eval_file", "data.eval_path", NULL),
    SAME("test_file", "data.eval_path", NULL),
    SAME("labels", "data.targets", "the file of targets"),
    SAME("val_split", "data.split", "text: the part that is kept for evaluation"),
    SAME("validation_split", "data.split", "text: the part that is kept for evaluation"),
    SAME("tokenizer_name", "data.tokenizer", NULL),
    SAME("tokenizer_path", "data.tokenizer", NULL),
    SAME("input_shape", "data.shape", "the shape of one sample, for raw and synthetic data"),

    /* lengths and intervals */
    SAME("num_epochs", "train.epochs", NULL),
    SAME("n_epochs", "train.epochs", NULL),
    SAME("max_epochs", "train.epochs", NULL),
    SAME("num_train_epochs", "train.epochs", NULL),
    SAME("epoch", "train.epochs", NULL),
    SAME("max_steps", "train.steps", NULL),
    SAME("num_steps", "train.steps", NULL),
    SAME("n_steps", "train.steps", NULL),
    SAME("train_steps", "train.steps", NULL),
    SAME("num_train_steps", "train.steps", NULL),
    SAME("total_steps", "train.steps", NULL),
    SAME("train_iters", "train.steps", NULL),
    SAME("max_iters", "train.steps", NULL),
    SAME("iterations", "train.steps", NULL),
    SAME("num_iterations", "train.steps", NULL),
    SAME("random_seed", "train.seed", NULL),
    SAME("data_seed", "train.seed", NULL),
    SAME("manual_seed", "train.seed", NULL),
    SAME("eval_steps", "train.eval_every", NULL),
    SAME("eval_interval", "train.eval_every", NULL),
    SAME("val_check_interval", "train.eval_every", NULL),
    SAME("eval_iters", "train.eval_batches", NULL),
    SAME("limit_val_batches", "train.eval_batches", NULL),
    SAME("logging_steps", "train.log_every", NULL),
    SAME("log_interval", "train.log_every", NULL),
    SAME("log_every_n_steps", "train.log_every", NULL),
    SAME("save_steps", "checkpoint.every", NULL),
    SAME("save_interval", "checkpoint.every", NULL),
    SAME("save_every", "checkpoint.every", NULL),
    SAME("checkpoint_interval", "checkpoint.every", NULL),
    SAME("save_total_limit", "checkpoint.keep", NULL),
    WORDS("load_best_model_at_end", "checkpoint.best", "true=loss|false=none",
          "keeps the checkpoint of the lowest evaluation loss, or of the best accuracy, f1 or dice"),
    SAME("early_stopping_patience", "train.early_stop_evals", "evaluations without progress"),
    SAME("early_stopping_threshold", "train.early_stop_delta", NULL),
    WORDS("gradient_checkpointing", "train.recompute", "true=block|false=none", NULL),
    WORDS("activation_checkpointing", "train.recompute", "true=block|false=none", NULL),

    /* schedule */
    SAME("warmup_steps", "schedule.warmup", NULL),
    SAME("num_warmup_steps", "schedule.warmup", NULL),
    SAME("warmup_iters", "schedule.warmup", NULL),
    SAME("lr_warmup_steps", "schedule.warmup", NULL),
    NONE("warmup_ratio", "schedule.warmup", RATIO),
    NONE("warmup_epochs", "schedule.warmup", "it counts steps"),
    SAME("lr_decay_iters", "schedule.horizon", NULL),
    SAME("min_lr", "schedule.min_learning_rate", NULL),
    SAME("lr_min", "schedule.min_learning_rate", NULL),
    WORDS("lr_scheduler_type", "schedule.type", SCHEDULE_WORDS, NULL),
    WORDS("lr_scheduler", "schedule.type", SCHEDULE_WORDS, NULL),
    WORDS("lr_schedule", "schedule.type", SCHEDULE_WORDS, NULL),
    WORDS("scheduler", "schedule.type", SCHEDULE_WORDS, NULL),
    WORDS("decay_lr", "schedule.type", "true=cosine|false=constant", NULL),
    SAME("gamma", "schedule.step_factor", "for schedule.type step"),
    SAME("step_size", "schedule.step_every", "for schedule.type step"),

    /* model */
    SAME("n_layer", "model.layers", BLOCKS),
    SAME("n_layers", "model.layers", BLOCKS),
    SAME("num_layers", "model.layers", BLOCKS),
    SAME("num_hidden_layers", "model.layers", BLOCKS),
    SAME("n_blocks", "model.layers", BLOCKS),
    SAME("n_head", "model.heads", NULL),
    SAME("n_heads", "model.heads", NULL),
    SAME("num_heads", "model.heads", NULL),
    SAME("nhead", "model.heads", NULL),
    SAME("num_attention_heads", "model.heads", NULL),
    SAME("d_model", "model.channels", WIDTH),
    SAME("dim", "model.channels", WIDTH),
    SAME("n_embd", "model.channels", WIDTH),
    SAME("embed_dim", "model.channels", WIDTH),
    SAME("hidden_size", "model.channels", WIDTH),
    SAME("hidden_dim", "model.channels", WIDTH),
    SAME("model_dim", "model.channels", WIDTH),
    SAME("hidden_sizes", "model.hidden", NULL),
    SAME("hidden_dims", "model.hidden", NULL),
    SAME("hidden_layers", "model.hidden", NULL),
    SAME("hidden_layer_sizes", "model.hidden", NULL),
    SAME("n_inner", "model.inner", INNER),
    SAME("d_ff", "model.inner", INNER),
    SAME("intermediate_size", "model.inner", INNER),
    SAME("num_key_value_heads", "model.kv_heads", NULL),
    SAME("n_kv_heads", "model.kv_heads", NULL),
    SAME("num_query_groups", "model.kv_heads", NULL),
    SAME("head_size", "model.head_dim", NULL),
    SAME("rope_theta", "model.rope_base", NULL),
    SAME("rotary_base", "model.rope_base", NULL),
    SAME("rms_norm_eps", "model.norm_eps", NULL),
    SAME("layer_norm_eps", "model.norm_eps", "a llama's; a gpt's is always 1e-05"),
    SAME("initializer_range", "model.init_std", "a llama's; a gpt starts as GPT-2 does"),
    SAME("sliding_window", "model.window", NULL),
    SAME("eos_token_id", "model.stop_tokens", NULL),
    SAME("block_size", "model.context", NULL),
    SAME("seq_len", "model.context", NULL),
    SAME("seq_length", "model.context", NULL),
    SAME("sequence_length", "model.context", NULL),
    SAME("max_seq_len", "model.context", NULL),
    SAME("max_seq_length", "model.context", NULL),
    SAME("max_length", "model.context", NULL),
    SAME("context_length", "model.context", NULL),
    SAME("context_size", "model.context", NULL),
    SAME("n_ctx", "model.context", NULL),
    SAME("n_positions", "model.context", NULL),
    SAME("max_position_embeddings", "model.context", NULL),
    SAME("vocab_size", "model.vocab", "remove it to take the size from the data"),
    SAME("n_vocab", "model.vocab", "remove it to take the size from the data"),
    SAME("padded_vocab_size", "model.vocab", "model.vocab_pad is what it is rounded up to"),
    SAME("dropout_rate", "model.dropout", NULL),
    SAME("hidden_dropout_prob", "model.dropout", NULL),
    SAME("attn_pdrop", "model.dropout", "one value for all of them"),
    SAME("embd_pdrop", "model.dropout", "one value for all of them"),
    SAME("resid_pdrop", "model.dropout", "one value for all of them"),
    SAME("tie_word_embeddings", "model.tied", NULL),
    SAME("tie_weights", "model.tied", NULL),
    WORDS("activation_function", "model.activation",
          "relu=relu|gelu=gelu|gelu_new=gelu_tanh|gelu_pytorch_tanh=gelu_tanh|silu=silu|swish=silu", NULL),
    WORDS("hidden_act", "model.activation",
          "relu=relu|gelu=gelu|gelu_new=gelu_tanh|gelu_pytorch_tanh=gelu_tanh|silu=silu|swish=silu", NULL),
    SAME("num_classes", "model.outputs", CLASSES),
    SAME("n_classes", "model.outputs", CLASSES),
    SAME("num_labels", "model.outputs", CLASSES),
    SAME("output_dim", "model.outputs", CLASSES),
    SAME("out_features", "model.outputs", CLASSES),
    WORDS("criterion", "model.loss",
          "cross_entropy=cross_entropy|crossentropyloss=cross_entropy|mse=mse|mseloss=mse|l1=l1|l1loss=l1|"
          "bce=bce_with_logits|bcewithlogitsloss=bce_with_logits",
          NULL),
    WORDS("loss_fn", "model.loss",
          "cross_entropy=cross_entropy|crossentropyloss=cross_entropy|mse=mse|mseloss=mse|l1=l1|l1loss=l1|"
          "bce=bce_with_logits|bcewithlogitsloss=bce_with_logits",
          NULL),
    WORDS("model_type", "model.type",
          "gpt2=gpt|gpt=gpt|llama=llama|mistral=llama|qwen2=llama|qwen3=llama|mlp=mlp|graph=graph", NULL),

    /* precision and device */
    WORDS("fp16", "precision.mode", "true=f16|false=f32", MODE),
    WORDS("bf16", "precision.mode", "true=bf16|false=f32", MODE),
    WORDS("amp", "precision.mode", "true=auto|false=f32", MODE),
    WORDS("use_amp", "precision.mode", "true=auto|false=f32", MODE),
    WORDS("half", "precision.mode", "true=f16|false=f32", MODE),
    WORDS("mixed_precision", "precision.mode", "true=auto|false=f32|" TYPE_WORDS, MODE),
    WORDS("precision", "precision.mode", TYPE_WORDS, MODE),
    WORDS("dtype", "precision.mode", TYPE_WORDS, MODE),
    WORDS("torch_dtype", "precision.mode", TYPE_WORDS, MODE),
    WORDS("tf32", "precision.matmul", "true=tf32|false=ieee", NULL),
    WORDS("fp32_residual_connection", "precision.residual", "true=f32|false=mode", NULL),
    WORDS("allow_tf32", "precision.matmul", "true=tf32|false=ieee", NULL),
    WORDS("device", "device.spec", DEVICE_WORDS, NULL),
    WORDS("accelerator", "device.spec", DEVICE_WORDS, NULL),
    WORDS("use_cpu", "device.spec", "true=cpu|false=gpu", NULL),
    WORDS("no_cuda", "device.spec", "true=cpu|false=gpu", NULL),
    WORDS("cudnn_deterministic", "parallel.deterministic", "true=true|false=false", NULL),

    /* command-line options of cltrain, or settings that are not needed */
    NONE("output_dir", NULL, FOLDER),
    NONE("out_dir", NULL, FOLDER),
    NONE("save_dir", NULL, FOLDER),
    NONE("run_name", NULL, FOLDER),
    NONE("logging_dir", NULL, FOLDER),
    NONE("resume_from_checkpoint", NULL, RESUME),
    NONE("resume", NULL, RESUME),
    NONE("init_from", "model.init", INIT),
    NONE("pretrained", "model.init", INIT),
    SAME("model_name_or_path", "model.init", INIT),
    NONE("compile", NULL, NOT_NEEDED),
    NONE("torch_compile", NULL, NOT_NEEDED),
    NONE("n_gpus", NULL, RANKS),
    NONE("num_gpus", NULL, RANKS),
    NONE("gpus", NULL, RANKS),
    NONE("devices", NULL, RANKS),
    NONE("world_size", NULL, RANKS),
};

#define DECODER "a decoder of GPT-2's kind"

static const clt_foreign_value foreign_values[] = {
    {"model.type", "transformer|gpt2|gpt3|gpt_2|nanogpt|minigpt|decoder|lm|language_model|causal_lm", "gpt",
     DECODER},
    {"model.type", "llama2|llama3|mistral|qwen|qwen2|qwen3|smollm|smollm2|tinyllama", "llama",
     "cltrain import DIR --out CONFIG writes the config of a published model"},
    {"model.type", "gemma|phi|rnn|lstm|gru|mamba", "gpt", DECODER ", not that model"},
    {"model.type", "encoder|mlm|bert_base|bert_large", "bert", "an encoder of BERT's kind"},
    {"model.type", "roberta|distilbert|electra|deberta|albert", "bert",
     "an encoder of BERT's kind, not that model"},
    {"model.type", "t5|bart|seq2seq", "gpt", DECODER "; there is no model with an encoder and a decoder"},
    {"model.type",
     "cnn|convnet|conv|conv2d|vgg|lenet|alexnet|densenet|mobilenet|efficientnet|vit|resnet18|resnet34|"
     "resnet50",
     "resnet", "for images; model.type=cnn3d is for volumes, model.type=graph for layers of your own"},
    {"model.type", "unet|u_net|nnunet|nn_unet|vnet|unet_3d|3d_unet|segmentation", "unet3d", "for volumes"},
    {"model.type", "cnn_3d|3d_cnn|3dcnn|conv3d|resnet3d|resnet_3d", "cnn3d", "for volumes"},
    {"model.type", "dense|fc|ffn|feedforward|feed_forward|linear|perceptron|regression|classifier|nn|dnn",
     "mlp", NULL},
    {"model.type", "sequential|custom|layers|functional", "graph", "model.layers lists its layers"},
    {"data.type", "txt|string|strings|file|corpus|jsonl|json|md|char|chars|lm", "text", NULL},
    {"data.type",
     "chats|messages|conversation|conversations|sharegpt|alpaca|instruct|instructions|sft|completions",
     "chat", "JSON Lines or lists of conversations, or of prompts with completions"},
    {"data.type", "bin|shards|shard|token|token_ids|ids", "tokens", NULL},
    {"data.type", "image|imagefolder|image_folder|folder|imagenet|jpeg|jpg|png|photos|pictures", "images",
     NULL},
    {"data.type", "table|tabular|pandas|dataframe|tsv|excel|spreadsheet|parquet", "csv",
     "a file of comma-separated values"},
    {"data.type", "numpy|array|npz", "npy", "one array a file"},
    {"data.type", "mnist|fashion_mnist|ubyte|idx3|idx1", "idx", NULL},
    {"data.type", "cifar10|cifar100|cifar_10", "cifar", NULL},
    {"data.type", "nii|nii.gz|volume|volumes|ct|mri|medical|dicom", "nifti", "NIfTI files: .nii, .nii.gz"},
    {"data.type", "binary|float32|f32", "raw", NULL},
    {"data.type", "random|fake|dummy|toy", "synthetic", NULL},
    {"schedule.type", "cosine_with_restarts|cosine_annealing|cosinedecay|cos", "cosine", NULL},
    {"schedule.type", "lineardecay|linear_decay|linearlr|polynomial", "linear", NULL},
    {"schedule.type", "fixed|constantlr|no|off", "constant", NULL},
    {"schedule.type", "multistep|multisteplr|exponential|staircase", "step", NULL},
    {NULL, NULL, NULL, NULL},
};

const clt_foreign_value *clt_foreign_values(void)
{
    return foreign_values;
}

/* Converts a name to its form in the tables: lower case, with '_'. False: it is longer than all names
 * there. */
static bool plain_name(const char *name, char plain[64])
{
    size_t n = strlen(name);
    if (n >= 64)
        return false;
    for (size_t i = 0; i <= n; i++)
        plain[i] = name[i] == '-'                     ? '_'
                   : name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a')
                                                      : name[i];
    return true;
}

const clt_foreign_key *clt_foreign_find(const char *name)
{
    char plain[64];
    if (!plain_name(name, plain))
        return NULL;
    for (size_t i = 0; i < sizeof foreign_keys / sizeof foreign_keys[0]; i++)
        if (strcmp(foreign_keys[i].name, plain) == 0)
            return &foreign_keys[i];
    return NULL;
}

static bool in_range(const clt_config_key *key, double value)
{
    bool low = key->min_exclusive ? value > key->min : value >= key->min;
    bool high = key->max_exclusive ? value < key->max : value <= key->max;
    return low && high;
}

/* True if the key accepts this value. False when in doubt, so that no suggestion is wrong. */
static bool takes(const clt_config_key *key, const clt_json *json)
{
    int64_t i;
    clt_json_type type = clt_json_typeof(json);
    switch (key->type) {
    case CLT_CFG_INT:
    case CLT_CFG_AUTO_INT:
    case CLT_CFG_LAYERS:
        return clt_json_int(json, &i) && in_range(key, (double)i);
    case CLT_CFG_FLOAT:
        return type == CLT_JSON_NUMBER && in_range(key, clt_json_number(json));
    case CLT_CFG_BOOL:
        return type == CLT_JSON_BOOL;
    case CLT_CFG_STRING:
    case CLT_CFG_STRINGS:
        return type == CLT_JSON_STRING && *clt_json_string(json);
    case CLT_CFG_CHOICE:
        return (type == CLT_JSON_BOOL && key->for_bool[0]) ||
               (type == CLT_JSON_STRING && clt_config_has_word(key->choices, clt_json_string(json)));
    case CLT_CFG_INTS:
        if (clt_json_int(json, &i))
            return in_range(key, (double)i);
        for (const clt_json *e = clt_json_first(json); e; e = clt_json_next(e))
            if (!clt_json_int(e, &i) || !in_range(key, (double)i))
                return false;
        return type == CLT_JSON_ARRAY && clt_json_count(json) > 0;
    case CLT_CFG_FLOATS:
        for (const clt_json *e = NULL; (e = clt_json_entry(json, e));)
            if (clt_json_typeof(e) != CLT_JSON_NUMBER || !in_range(key, clt_json_number(e)))
                return false;
        return type != CLT_JSON_ARRAY || clt_json_count(json) > 0;
    }
    return false;
}

static bool takes_json(const clt_config_key *key, const char *text)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    return clt_json_parse(text, strlen(text), "value", CLT_ECONFIG, &doc) == CLT_OK &&
           takes(key, clt_json_root(doc));
}

/* True if the key takes the text, as JSON or, unless `json`, as a word without quotes. */
static bool takes_text(const clt_config_key *key, const char *text, bool json)
{
    char quoted[160];
    bool good = takes_json(key, text);
    if (good || json || strpbrk(text, "\"\\"))
        return good;
    snprintf(quoted, sizeof quoted, "\"%.150s\"", text);
    return takes_json(key, quoted);
}

/* Writes the right side of the pair whose left side is `word` (in any case); false: there is none. */
static bool map_word(const char *pairs, const char *word, char *out, size_t size)
{
    size_t length = strlen(word);
    for (const char *p = pairs; *p;) {
        size_t n = strcspn(p, "|"), left = strcspn(p, "=");
        bool same = left == length;
        for (size_t i = 0; same && i < length; i++) {
            char c = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
            same = c == p[i];
        }
        if (same) {
            snprintf(out, size, "%.*s", (int)(n - left - 1), p + left + 1);
            return true;
        }
        p += n + (p[n] == '|');
    }
    return false;
}

const char *clt_foreign_value_of(const char *path, const char *word, char buffer[64], const char **note)
{
    char plain[64];
    *note = NULL;
    if (!plain_name(word, plain))
        return NULL;
    for (const clt_foreign_value *v = foreign_values; v->path; v++)
        if (strcmp(v->path, path) == 0 && clt_config_has_word(v->words, plain)) {
            *note = v->note;
            return v->ours;
        }
    /* values of other tools' keys that correspond to this key */
    for (size_t i = 0; i < sizeof foreign_keys / sizeof foreign_keys[0]; i++)
        if (foreign_keys[i].path && foreign_keys[i].words && strcmp(foreign_keys[i].path, path) == 0 &&
            map_word(foreign_keys[i].words, word, buffer, 64))
            return buffer;
    return NULL;
}

/* Writes the value in the form that our key takes: JSON if value.json is set, else as on a command line. */
static bool carry(const clt_foreign_key *foreign, clt_given_value value, char *out, size_t size)
{
    char word[128], mapped[64];
    size_t n = value.text ? strlen(value.text) : 0;
    if (n == 0 || n >= sizeof word || (foreign && foreign->carry == CLT_CARRY_NONE))
        return false;
    if (!foreign || foreign->carry == CLT_CARRY_SAME) {
        snprintf(out, size, "%s", value.text);
        return true;
    }
    bool quotes = n >= 2 && value.text[0] == '"' && value.text[n - 1] == '"';
    snprintf(word, sizeof word, "%.*s", (int)(quotes ? n - 2 : n), value.text + quotes);
    if (!map_word(foreign->words, word, mapped, sizeof mapped))
        return false;
    bool plain = strcmp(mapped, "true") == 0 || strcmp(mapped, "false") == 0;
    snprintf(out, size, value.json && !plain ? "\"%s\"" : "%s", mapped);
    return true;
}

bool clt_foreign_line(const char *path, const clt_foreign_key *foreign, clt_given_value value, char *line,
                      size_t size)
{
    char text[128];
    int index = clt_config_key_index(path);
    line[0] = '\0';
    if (index < 0 || !carry(foreign, value, text, sizeof text))
        return false;
    const clt_config_key *key = &clt_config_schema()[index];
    /* Text with characters that a shell would interpret is not suggested for copying. */
    bool copies = value.json || strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789_.,:/+-@%[]") == strlen(text);
    if (!copies || !takes_text(key, text, value.json))
        return false;
    size_t section = strcspn(path, ".");
    if (value.json)
        snprintf(line, size, "\"%.*s\": {\"%s\": %s}", (int)section, path, path + section + 1, text);
    else
        snprintf(line, size, "%s=%s", path, text);
    return true;
}
