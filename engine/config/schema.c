/* SPDX-License-Identifier: Apache-2.0
 *
 * The common keys of the schema, each with its type, range, unit, default and help; config_parts.c adds the
 * keys of model families, data formats and optimizers. Parsing, checks, overrides, printing and
 * docs/config.md all come from the schema; rules between common keys are in config_check.c. Knows nothing
 * of values. */
#include "engine/config/choices.h"
#include "engine/config/config_internal.h"
#include "engine/config/part.h"

#define STEPS 16777216 /* most steps of a run: the schedule is a table with an entry for each step */

const clt_config_key clt_config_common[] = {
    CLT_KEY_CHOICE("model.type", NULL, NULL, "family of the model"),
    CLT_KEY_INT("model.context", 0, CLT_KEY_WIDE, "0", "tokens",
                "length of a sequence; above 0, text and tokens are read as sequences of it, each with the "
                "tokens that follow"),
    CLT_KEY_STRING(
        "model.init", "\"\"",
        "weights that a new run starts from: a folder that save_pretrained of transformers wrote, a run, a "
        "safetensors file, or one of torch.save; empty: random values. --init of the command line takes its "
        "place, and a resumed run keeps its own weights"),
    CLT_KEY_STRINGS(
        "model.freeze", "[]",
        "parameters that training leaves as they are, by name: * matches any characters, \"wte.*\"; "
        "they have no gradient and no optimizer state"),

    CLT_KEY_CHOICE("data.type", NULL, NULL, "format of the data"),
    {.path = "data.micro_batch",
     .type = CLT_CFG_AUTO_INT,
     .default_text = "32",
     .min = 1,
     .max = CLT_KEY_WIDE,
     .unit = "samples",
     .help = "samples that one rank computes at the same time; auto: the largest number that fits into the "
             "device's memory; a step then has the number of micro-batches that data.global_batch needs"},
    CLT_KEY_INT("data.global_batch", 0, 1e9, "0", "samples",
                "samples of one step over all ranks. They are divided into micro-batches; the numbers of "
                "micro-batches of two ranks differ by one at most; 0: data.micro_batch times ranks"),
    {.path = "data.workers",
     .type = CLT_CFG_AUTO_INT,
     .default_text = "\"auto\"",
     .min = 1,
     .max = 1024,
     .unit = "threads",
     .help =
         "loader threads of a rank; auto: 75 % of the cores divided by the ranks of this host, rounded up"},
    CLT_KEY_INT("data.prefetch", 2, 64, "4", "micro-batches", "filled ahead of the device"),
    CLT_KEY_BOOL("data.shuffle", "true", "a new order of the training samples in every epoch"),
    CLT_KEY_FLOAT(
        "data.scale", -1e30, 1e30, "0", "",
        "input = (stored value * scale - mean) / std, computed in double; 0: 1/255 for inputs of bytes, if "
        "data.mean and data.std are at most 1, else 1"),
    CLT_KEY_FLOATS("data.mean", -1e30, false, 1e30, "0",
                   "see data.scale; for images of integers also a list with one number for each channel"),
    CLT_KEY_FLOATS("data.std", 0, true, 1e30, "1", "see data.mean"),

    CLT_KEY_CHOICE("optimizer.type", NULL, "\"adamw\"", "how parameters follow from gradients"),
    CLT_KEY_FLOAT_OPEN("optimizer.learning_rate", 0, true, 1e6, false, "0.001", "",
                       "peak learning rate, after warm-up"),
    CLT_KEY_INT(
        "optimizer.base_batch", 0, 1e9, "0", "samples",
        "linear scaling: the global batch for which optimizer.learning_rate and schedule.min_learning_rate "
        "are given; they are multiplied by data.global_batch divided by it; 0: they are used as they are"),
    CLT_KEY_FLOAT("optimizer.weight_decay", 0, 1e6, "0", "", "weight decay"),
    CLT_KEY_CHOICE("optimizer.decay", CLT_CHOICE_WORDS(CLT_DECAYS), "\"matrices\"",
                   "which parameters decay: parameters of two or more dimensions, which leaves out biases "
                   "and the weights of norms, or all parameters"),
    CLT_KEY_FLOAT_OPEN(
        "optimizer.ema", 0, false, 1, true, "0", "",
        "decay of an exponential moving average of the weights, which evaluation, prediction and generation "
        "then use; 0: none"),
    CLT_KEY_FLOAT("optimizer.clip", 0, 1e30, "0", "", "largest global norm of the gradients; 0: no clipping"),

    CLT_KEY_CHOICE("schedule.type", CLT_CHOICE_WORDS(CLT_SCHEDULE_TYPES), "\"constant\"",
                   "course of the learning rate after warm-up; poly: learning_rate * (1 - step / "
                   "horizon)^power, counted from "
                   "the first step, so that it drops where warm-up ends; wsd: constant, then down by 1 - "
                   "sqrt at the end"),
    CLT_KEY_FLOAT_OPEN("schedule.power", 0, true, 10, false, "0.5", "", "poly: the exponent"),
    CLT_KEY_INT("schedule.warmup", 0, STEPS, "0", "steps",
                "linear rise from 0 to optimizer.learning_rate; it becomes shorter, and a line says so, "
                "where train.steps of the command line leaves no room for it"),
    CLT_KEY_FLOAT("schedule.min_learning_rate", 0, 1e6, "0", "",
                  "learning rate at the end of linear, cosine and wsd; the lowest one of step and poly"),
    CLT_KEY_INT("schedule.step_every", 0, STEPS, "0", "steps", "step: interval between two multiplications"),
    CLT_KEY_FLOAT_OPEN("schedule.step_factor", 0, true, 1, false, "0.1", "",
                       "step: factor of each multiplication"),
    CLT_KEY_INT("schedule.decay_steps", 0, STEPS, "0", "steps",
                "wsd: length of the final decay; 0: the last 20 %"),
    CLT_KEY_INT("schedule.horizon", 0, STEPS, "0", "steps",
                "length of the whole schedule; 0: as long as the training"),

    CLT_KEY_CHOICE(
        "precision.mode", CLT_CHOICE_WORDS(CLT_PRECISION_MODES), "\"f32\"",
        "storage of activations and of the products' weights; arithmetic, parameters and their gradients "
        "stay f32; auto: bf16 or f16 where the device has matrix units for it, else f32"),
    CLT_KEY_CHOICE(
        "precision.loss_scaling", CLT_CHOICE_WORDS(CLT_SCALINGS), "\"auto\"",
        "losses times a scale, gradients divided by it, so that small gradients survive 16 bits; auto: "
        "dynamic with f16, else off"),
    CLT_KEY_FLOAT("precision.loss_scale", 1e-6, 1e30, "65536", "",
                  "the static scale, or where the dynamic one starts"),
    CLT_KEY_FLOAT("precision.growth", 1.001, 1e6, "2", "",
                  "dynamic: factor after precision.growth_interval good steps in a row"),
    CLT_KEY_INT("precision.growth_interval", 1, 1e9, "2000", "steps", "see precision.growth"),
    CLT_KEY_FLOAT("precision.backoff", 1e-6, 0.999, "0.5", "",
                  "dynamic: factor after a step whose gradients were not finite, which is skipped"),
    CLT_KEY_FLOAT("precision.min_loss_scale", 0, 1e30, "0", "", "dynamic: the scale never falls below it"),
    CLT_KEY_CHOICE(
        "precision.matmul", CLT_CHOICE_WORDS(CLT_MATMULS), "\"ieee\"",
        "products of f32: ieee keeps all bits of their operands, tf32 rounds them to 10 bits of mantissa "
        "where the device has matrix units for that; sums are f32"),
    CLT_KEY_CHOICE("precision.residual", CLT_CHOICE_WORDS(CLT_RESIDUALS), "\"mode\"",
                   "with f16 or bf16: storage of the residual sums between blocks, of the outputs of "
                   "embeddings and norms that enter them, and of their gradients; mode: as precision.mode "
                   "says; f32: as torch.autocast keeps them, more exact, with more memory and traffic"),

    CLT_KEY_BOOL(
        "parallel.deterministic", "true",
        "a run that is repeated gets the same bits from its sums over the ranks, whichever algorithm "
        "was measured to be the fastest; false: MPI's own all-reduce (native), whose order of "
        "additions is unknown, is measured, too, and may be chosen"),
    CLT_KEY_BOOL(
        "parallel.rank_invariant", "false",
        "the same bits with 1, 2, 4 ... ranks and the same data.global_batch: micro-batches are added up as "
        "a binary tree; the number of micro-batches and the number of ranks must be powers of two"),
    CLT_KEY_BOOL(
        "parallel.sync_batch_norm", "false",
        "batch_norm takes mean and variance over the micro-batches of all ranks, as torch.nn.SyncBatchNorm; "
        "false: each rank over its own; one rank computes the same either way; not with "
        "parallel.rank_invariant"),
    CLT_KEY_CHOICE(
        "parallel.gradients", CLT_CHOICE_WORDS(CLT_GRADIENT_TYPES), "\"f32\"",
        "type of parameter gradients on their way between ranks; sums are f32; f16 only under a loss scale"),
    CLT_KEY_BOOL("parallel.half_between_hosts", "false",
                 "with 16-bit parallel.gradients: the sums of a host's ranks travel to other hosts in this "
                 "type as well, which needs two thirds of the bytes but rounds once more; false: as f32"),
    CLT_KEY_CHOICE("parallel.allreduce", CLT_CHOICE_WORDS(CLT_ALLREDUCES), "\"auto\"",
                   "algorithm of sums over ranks; auto: through memory that the ranks of a host share, "
                   "between hosts the fastest of a measurement at the start"),
    CLT_KEY_CHOICE(
        "parallel.embeddings", CLT_CHOICE_WORDS(CLT_EMBEDDINGS), "\"auto\"",
        "how gradients of embeddings travel between ranks: dense, as whole tables, or as rows, one for each "
        "token of a micro-batch, which begins a tied embedding's sum early; auto: rows where the "
        "micro-batches of all ranks have no more tokens than the table has rows; not with "
        "parallel.rank_invariant"),
    CLT_KEY_FLOAT(
        "parallel.bucket_mb", 0.001, 1e6, "25", "MiB",
        "gradients are summed over the ranks in buckets of f32 numbers of at most this size, but at "
        "least 64 KiB, each as soon as the backward pass has computed it; results do not depend on it"),
    CLT_KEY_BOOL(
        "parallel.shared_memory", "true",
        "on CPU devices the ranks of a host compute gradients in memory that they share, where they are "
        "summed in place; false: they are copied, to compare"),
    CLT_KEY_FLOAT("parallel.first_bucket_mb", 0.001, 1e6, "1", "MiB",
                  "size of the first bucket, which is smaller so that communication begins early"),
    CLT_KEY_FLOAT(
        "parallel.deadline", 0, 1e6, "0", "seconds",
        "how long ranks wait for a rank that is late in a step, before the run ends with code 9; 0: "
        "20 median steps, at least 60 s"),
    CLT_KEY_FLOAT_OPEN(
        "parallel.start_deadline", 0, true, 1e6, false, "600", "seconds",
        "the same at the start and around evaluations, checkpoints and samples, when ranks are "
        "unequally busy"),
    CLT_KEY_BOOL("parallel.share_devices", "false", "ranks of a host may share a GPU"),
    CLT_KEY_CHOICE(
        "parallel.bind", CLT_CHOICE_WORDS(CLT_BINDS), "\"auto\"",
        "on hosts with several NUMA nodes the threads of a rank run on the cores of the node that its "
        "GPU is attached to; auto: where several ranks share a host"),
    CLT_KEY_CHOICE("parallel.shard", CLT_CHOICE_WORDS(CLT_SHARDS), "\"none\"",
                   "optimizer: each rank keeps the optimizer's state of its share of the parameters, updates "
                   "these and gets the others' (ZeRO stage 1); the parameters have the same bits"),

    CLT_KEY_INT("train.steps", 0, STEPS, "0", "steps", "length of the training; 0: train.epochs decides"),
    CLT_KEY_FLOAT_OPEN("train.epochs", 0, true, 1e6, false, "1", "epochs",
                       "passes over the training data when train.steps is 0; on the command line it replaces "
                       "the file's train.steps"),
    CLT_KEY_INT("train.seed", 0, 9223372036854775807.0, "1337", "",
                "seed of parameters, data order and dropout"),
    CLT_KEY_INT("train.eval_every", 0, STEPS, "0", "steps",
                "interval between evaluations; 0: only at the end"),
    CLT_KEY_INT("train.eval_batches", 0, CLT_KEY_MANY, "0", "micro-batches",
                "evaluate only on this number of micro-batches from the beginning, which the ranks divide; "
                "0: on all"),
    CLT_KEY_BOOL(
        "train.eval_metrics", "false",
        "evaluations during training also count by class, from predictions that are read from the device: "
        "top-k accuracy, confusion matrix, precision, recall, F1, Dice of segmentations; 'cltrain eval' "
        "always does for classifiers"),
    CLT_KEY_INT(
        "train.eval_top_k", 2, 1000, "5", "classes",
        "a prediction is right among the top k if the target has one of the k largest logits; counted "
        "where there are more classes"),
    CLT_KEY_BOOL("train.eval_background", "false",
                 "class 0 counts in the mean Dice too; false: it is the background"),
    CLT_KEY_INT("train.early_stop_evals", 0, STEPS, "0", "evaluations",
                "patience: the training ends after this number of evaluations (train.eval_every) in a row "
                "that were not better than the best one before them, by the figure of checkpoint.best (loss "
                "if none); 0: never"),
    CLT_KEY_FLOAT("train.early_stop_delta", 0, 1e6, "0", "",
                  "an evaluation is better only if its figure is by more than this"),
    CLT_KEY_INT(
        "train.max_nonfinite", 1, 1e9, "10", "steps",
        "skipped updates in a row (loss or gradients not finite) after which the run ends with code 6"),
    CLT_KEY_CHOICE("train.on_spike", CLT_CHOICE_WORDS(CLT_SPIKE_ACTIONS), "\"off\"",
                   "the reaction to a step whose loss or gradient norm is far above the values of recent "
                   "steps: warn, or skip the update"),
    CLT_KEY_FLOAT(
        "train.spike_loss", 0, 1e6, "6", "standard deviations",
        "a loss more than this above the mean of recent steps is a spike; 0: losses are not judged"),
    CLT_KEY_FLOAT("train.spike_gradient", 0, 1e6, "6", "standard deviations",
                  "the same for the norm of the gradients before clipping"),
    CLT_KEY_INT("train.spike_window", 2, 1e6, "128", "steps",
                "number of recent steps; no step is a spike before this number of steps is done"),
    {.path = "train.recompute",
     .type = CLT_CFG_CHOICE,
     .choices = CLT_CHOICE_WORDS(CLT_RECOMPUTES),
     .default_text = "\"none\"",
     .unit = "",
     .help =
         "activations computed again in the backward pass, for less memory: gelu: outputs of activations, "
         "dropout and norms, such as batch norms with the relu after them; their statistics are kept; "
         "block: everything inside a block of the model"},
    CLT_KEY_CHOICE("train.fuse", CLT_CHOICE_WORDS(CLT_FUSINGS), "\"on\"",
                   "neighbouring layers become one kernel; off: every layer apart, to compare"),
    CLT_KEY_INT("train.log_every", 1, 1e9, "10", "steps",
                "interval between the step lines that stay on the console and in log.txt; not set: these "
                "lines are also at least half a second apart"),

    CLT_KEY_INT("checkpoint.every", 0, STEPS, "0", "steps",
                "interval between checkpoints; 0: by time (checkpoint.minutes) and at the end"),
    CLT_KEY_FLOAT("checkpoint.minutes", 0, 1e6, "15", "minutes",
                  "a checkpoint whenever this much time has passed since the last one; 0: never"),
    CLT_KEY_INT("checkpoint.keep", 0, 1e6, "3", "checkpoints",
                "number of newest checkpoints that are kept; 0: all"),
    CLT_KEY_BOOL("checkpoint.final", "true", "a checkpoint at the end of the training"),
    CLT_KEY_INT("checkpoint.major", 0, STEPS, "0", "steps",
                "checkpoints of steps that are multiples of it are kept for ever; 0: none"),
    CLT_KEY_STRING(
        "checkpoint.upload", "\"\"",
        "s3://BUCKET/PREFIX to which checkpoints, metrics.jsonl and log.txt are uploaded during the "
        "training, and from which --resume auto fetches the newest checkpoint; empty: nowhere"),
    CLT_KEY_FLOAT("checkpoint.upload_seconds", 0, 1e6, "600", "seconds",
                  "the longest that the end of a run waits for uploads; 0: as long as they take"),
    CLT_KEY_INT("checkpoint.upload_keep", 0, 1e6, "0", "checkpoints",
                "how many of the newest stay at checkpoint.upload, in addition to what checkpoint.major and "
                "checkpoint.best keep; 0: all"),
    {.path = "checkpoint.best",
     .type = CLT_CFG_CHOICE,
     .choices = CLT_CHOICE_WORDS(CLT_BESTS),
     .for_bool = {"none", "loss"},
     .default_text = "\"none\"",
     .unit = "",
     .help = "a checkpoint is saved at each evaluation that is the best so far by this figure, and the best "
             "one is kept: the lowest loss, or the highest accuracy, top-k accuracy (train.eval_top_k), "
             "macro F1, mean Dice or F1 of entities; top_k, f1 and dice as with train.eval_metrics; true is "
             "loss, false is none"},

    CLT_KEY_CHOICE(
        "log.level", "error|warn|info|debug|trace", "\"info\"",
        "which diagnostics stderr and log.txt get: warnings, and with debug why variants and records were "
        "refused"),

    CLT_KEY_BOOL(
        "log.tensorboard", "false",
        "the run folder gets an event file for TensorBoard: curves, hyper-parameters, events as text"),
    CLT_KEY_INT(
        "log.histograms", 0, STEPS, "0", "steps",
        "with log.tensorboard: interval between histograms of all gradients and parameters, which are read "
        "from the device then; 0: none"),

    CLT_KEY_STRING(
        "log.sample_prompt", "\"\"",
        "gpt, llama: at each evaluation and at the end the model continues this text, which log.txt, "
        "metrics.jsonl, "
        "the report and TensorBoard show; empty: only with log.sample_every, from the beginning of a text"),
    CLT_KEY_INT("log.sample_every", 0, STEPS, "0", "steps",
                "gpt, llama: interval between these texts; 0: at each evaluation if there is a "
                "log.sample_prompt, else "
                "never"),
    CLT_KEY_INT("log.sample_tokens", 1, 100000, "100", "tokens", "length of each of these texts"),

    CLT_KEY_FLOAT("cost.per_hour", 0, 1e9, "0", "money",
                  "price of one machine for an hour, from which a run counts what it costs; 0: "
                  "CLTRAIN_PRICE_PER_HOUR of the environment, else no cost is counted"),
    CLT_KEY_STRING("cost.currency", "\"\"", "label of the prices' currency, such as USD; only shown"),
    CLT_KEY_STRINGS("cost.tags", "[]",
                    "labels such as Project=ML, which the run's records and the report show"),
    CLT_KEY_FLOAT(
        "cost.on_demand_per_hour", 0, 1e9, "0", "money",
        "price of such a machine on demand, from which the saving by a spot machine is shown; 0: not shown"),
    CLT_KEY_FLOAT(
        "cost.budget", 0, 1e15, "0", "money",
        "when all sessions of the run together have cost this much, it finishes the step, saves and "
        "ends with code 75; 0: no limit"),

    CLT_KEY_FLOAT(
        "cost.per_kwh", 0, 1e9, "0", "money",
        "price of a kilowatt hour, from which the cost of the devices' energy is shown; 0: not shown"),

    CLT_KEY_FLOAT(
        "monitor.seconds", 0, 3600, "1", "seconds",
        "interval between two measurements of the device and the host (utilization, memory, power, "
        "temperature, errors); 0: none; not given: CLTRAIN_MONITOR_SECONDS of the environment, else 1"),
    CLT_KEY_STRING("monitor.prometheus", "\"\"",
                   "a file that ends with .prom, or a folder for one, into which the run writes its figures "
                   "and its devices' figures for Prometheus; empty: none"),

    CLT_KEY_CHOICE("cloud.provider", "auto|aws|gcp|azure|alibaba|file|url|off", "\"auto\"",
                   "the cloud that gives notice before it takes this machine away: at a notice the run "
                   "finishes its step, saves and ends with code 75; auto: the cloud that the machine's "
                   "firmware names, or none. cloud.notice_file and cloud.notice_url are watched in addition "
                   "to a cloud; file, url: only these are watched"),
    CLT_KEY_STRING("cloud.notice_file", "\"\"", "a file whose existence is such a notice"),
    CLT_KEY_STRING("cloud.notice_url", "\"\"",
                   "an address from which notices are requested: the answer 200 is a notice, 204 and 404 "
                   "mean that there is no notice"),
    CLT_KEY_FLOAT("cloud.poll_seconds", 0, 3600, "0", "seconds",
                  "interval between two requests for notices; 0: 5 seconds with aws and alibaba, else 1"),
    CLT_KEY_STRING(
        "cloud.endpoint", "\"\"",
        "address of the metadata service, such as http://127.0.0.1:8080; empty: the provider's own"),

    CLT_KEY_STRING(
        "storage.endpoint", "\"\"",
        "address of the server of object storage; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the "
        "profile's, else AWS"),
    CLT_KEY_STRING(
        "storage.region", "\"\"",
        "region of the bucket; empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, else the server "
        "is asked"),
    CLT_KEY_CHOICE("storage.sse", "none|AES256|aws:kms", "\"none\"",
                   "encryption that is requested from the server; none: the server decides"),
    CLT_KEY_STRING("storage.kms_key", "\"\"",
                   "storage.sse aws:kms: the key's name; empty: the account's own"),
    CLT_KEY_STRING("storage.allow_http", "\"\"",
                   "a server that may be asked without TLS, as in 10.0.0.5:9000; empty: only this machine"),
    CLT_KEY_STRING("storage.cache", "\"\"",
                   "folder for copies of what is read from object storage; empty: the user's cache"),
    CLT_KEY_FLOAT("storage.cache_gb", 0.01, 1e6, "100", "GB",
                  "the most that this folder may hold; what was used longest ago goes first"),
    CLT_KEY_BOOL("storage.ahead", "true",
                 "fetch data from object storage from its beginning to its end, beside what is read; false: "
                 "only what is read, and what is read next"),

    CLT_KEY_STRINGS("hooks.on_notice", "[]",
                    "a program and its arguments, started without a shell on the host whose cloud gives "
                    "notice that it will be taken away, or should save"),
    CLT_KEY_STRINGS("hooks.on_save", "[]",
                    "a program and its arguments, started after each checkpoint, beside the training"),
    CLT_KEY_STRINGS("hooks.on_exit", "[]",
                    "a program and its arguments, run on each host when the training has ended in any way"),
    CLT_KEY_STRINGS("hooks.pass", "[]",
                    "names of environment variables that hooks get beside PATH, HOME, the user's name, "
                    "language, time zone and folder for temporary files"),
    CLT_KEY_FLOAT("hooks.seconds", 0.1, 86400, "60", "seconds", "a hook that runs for longer is killed"),

    CLT_KEY_STRING(
        "device.spec", "\"\"",
        "platform:device as in 0:0, cpu, gpu, or a part of the device's name; empty: the first GPU, else "
        "the CPU"),
    CLT_KEY_CHOICE("device.tune", "off|cached|on", "\"cached\"",
                   "variants of kernels and their sizes: off: the engine's own choice; cached: also what "
                   "'cltrain tune' has measured on this device; on: and what is missing is measured at the "
                   "start"),
    CLT_KEY_FLOAT("device.tune_seconds", 0.1, 3600, "10", "seconds",
                  "device.tune on: time for measuring at the start"),
    CLT_KEY_BOOL(
        "device.timestamps", "true",
        "the device's queues note when commands ran, on GPUs only when this key is set or with --profile, "
        "because it may cost time there; without: device_busy, h2d_gbs and d2h_gbs of the metrics are null"),

    CLT_KEY_END,
};
