/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of other tools' commands and options, with the cltrain words to write instead; and functions that
 * search them. */
#include "cli/screen/other_words.h"

#include <stdio.h>
#include <string.h>

#include "cli/screen/shell_word.h"

/* In both tables `words` holds alternatives, separated by '|', in lower case and with '-' for '_'. */
typedef struct other_command_row {
    const char *words; /* "resume|continue" */
    const char *write; /* the cltrain command and its first arguments */
    const char *then;  /* appended if the user wrote nothing after the word */
} other_command_row;

typedef struct other_option_row {
    const char *words;
    const char *command; /* only for this command; NULL: for every command that has the option `write` */
    const char *write;   /* "--out", "log.level=debug", an operand "CONFIG", a command "launch --devices" */
    bool value;          /* the other tool's option has a value, which the advice keeps */
} other_option_row;

#define COMMAND(words_, write_, then_)                                                                       \
    {                                                                                                        \
        .words = words_, .write = write_, .then = then_                                                      \
    }
#define OPTION(words_, command_, write_, value_)                                                             \
    {                                                                                                        \
        .words = words_, .command = command_, .write = write_, .value = value_                               \
    }

static const other_command_row commands[] = {
    COMMAND("resume|continue|restart", "train --resume", "RUN"),
    COMMAND("finetune|fine-tune|finetuning", "train --init FOLDER", "CONFIG"),
    COMMAND("fit|run|start|pretrain|training", "train", "CONFIG"),
    COMMAND("test|evaluate|evaluation|validate|val|score", "eval", "RUN"),
    COMMAND("infer|inference|classify|segment|prediction", "predict", "RUN"),
    COMMAND("sample|complete|chat|prompt", "generate", "RUN"),
    COMMAND("download|fetch|get", "data fetch", "NAME"),
    COMMAND("prepare|preprocess|tokenize|tokenise|pack", "data prepare", "TEXT"),
    COMMAND("convert|save-pretrained|to-hf", "export", "RUN"),
    COMMAND("profile|profiler", "train --profile", "CONFIG"),
    COMMAND("dry-run|check|lint", "train --dry-run", "CONFIG"),
    COMMAND("benchmark|speed|build|compile", "bench step", "CONFIG"),
    COMMAND("monitor|tail|status", "watch", "RUN"),
    COMMAND("plot|dashboard|tensorboard|board", "report", "RUN"),
    COMMAND("diff", "compare", "RUN_A RUN_B"),
    COMMAND("list|ls|gpus|gpu|list-devices|clinfo|nvidia-smi", "devices", ""),
    COMMAND("info|about", "doctor", ""),
    COMMAND("summary|summarize|describe", "plan", "CONFIG"),
    COMMAND("memory|vram", "estimate", "CONFIG"),
    COMMAND("cost|price", "estimate", "CONFIG --for H100,A100"),
    COMMAND("distributed|torchrun|deepspeed|accelerate|mpirun|multi-gpu", "launch", "CONFIG"),
    COMMAND("autotune", "tune", ""),
    COMMAND("init|create|configure|scaffold", "new", "FILE"),
    COMMAND("schema|keys", "config --schema", ""),
    COMMAND("layers", "ops", ""),
    COMMAND("clean", "cache --clear", ""),
};

static const other_option_row options[] = {
    OPTION("--devices|--gpus|--num-gpus|--n-gpus|--ngpus|--nproc-per-node|--nproc|--num-processes|-np",
           "train", "launch --devices", true),
    OPTION("--gpus|--num-gpus|--n-gpus|--ngpus|--nproc-per-node|--nproc|--num-processes|-np", "launch",
           "--devices", true),
    OPTION("--nnodes|--num-nodes|--num-machines", "launch", "--hosts FILE", false),
    OPTION("-o|--output|--output-dir|--out-dir|--save-dir|--log-dir|--output-file", NULL, "--out", true),
    OPTION("--resume-from|--resume-from-checkpoint|--checkpoint|--ckpt|--ckpt-path", "train", "--resume",
           true),
    OPTION("--load|--weights|--pretrained|--init-from|--model-name-or-path|--from-pretrained|--finetune",
           "train", "--init", true),
    OPTION("--from", "config", "import FOLDER --out", false),
    OPTION("--config|--cfg|--config-file|--config-path|-c", NULL, "CONFIG", true),
    OPTION("--run|--model|--model-path|--model-dir|--run-dir|--ckpt|--load|-m", NULL, "RUN", true),
    OPTION("--cpu|--use-cpu|--no-cuda", NULL, "--device cpu", false),
    OPTION("--gpu|--cuda|--use-gpu", NULL, "--device gpu", false),
    OPTION("-d|--accelerator", NULL, "--device", true),
    OPTION("-v|--verbose|--debug", "train", "log.level=debug", false),
    OPTION("--check|--validate-only", NULL, "--dry-run", false),
    OPTION("--max-tokens|--max-new-tokens|--num-tokens|--n-predict|--length|-n", NULL, "--max-new", true),
    OPTION("-p|--text", NULL, "--prompt", true),
    OPTION("-t|--temp", "generate", "--temperature", true),
    OPTION("-i|--file|--data", NULL, "--input", true),
    OPTION("-k", NULL, "--top-k", true),
    OPTION("-j|--workers", NULL, "--jobs", true),
    OPTION("--vocab-size|--train-tokenizer", "data prepare", "--train-bpe", true),
    OPTION("--text-column|--text-key|--field", "data prepare", "--json-key", true),
    OPTION("--fp16|--half", "train", "precision.mode=f16", false),
    OPTION("--bf16", "train", "precision.mode=bf16", false),
    OPTION("--amp|--mixed-precision", "train", "precision.mode=auto", false),
};

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

/* True if the word is in the list; its case does not matter, and '_' counts as '-'. */
static bool is_one_of(const char *words, const char *given, size_t length)
{
    char plain[64];
    if (length >= sizeof plain)
        return false;
    for (size_t i = 0; i < length; i++)
        plain[i] = given[i] == '_'                      ? '-'
                   : given[i] >= 'A' && given[i] <= 'Z' ? (char)(given[i] - 'A' + 'a')
                                                        : given[i];
    /* the case of one-letter options matters */
    if (length == 2 && given[0] == '-')
        plain[1] = given[1];
    plain[length] = '\0';
    for (const char *w = words; *w; w += strcspn(w, "|"), w += *w == '|')
        if (strcspn(w, "|") == length && strncmp(w, plain, length) == 0)
            return true;
    return false;
}

bool other_command(int argc, char **argv, clt_str *out)
{
    for (size_t i = 0; i < COUNT(commands); i++) {
        if (!is_one_of(commands[i].words, argv[0], strlen(argv[0])))
            continue;
        clt_str_printf(out, "; write: cltrain %s", commands[i].write);
        for (int k = 1; k < argc; k++) {
            clt_str_append(out, " ");
            shell_append_word(out, argv[k]);
        }
        if (argc == 1 && *commands[i].then)
            clt_str_printf(out, " %s", commands[i].then);
        return true;
    }
    return false;
}

static bool has_option(const other_option_place *place, const char *write)
{
    size_t n = strcspn(write, " ");
    for (size_t i = 0; i < place->n_options; i++)
        if (strlen(place->options[i]) == n && strncmp(place->options[i], write, n) == 0)
            return true;
    return false;
}

/* True if this command accepts the words that the row advises to write. */
static bool fits(const other_option_row *row, const other_option_place *place)
{
    if (row->command && strcmp(row->command, place->command) != 0)
        return false;
    if (row->write[0] == '-')
        return has_option(place, row->write);
    if (strchr(row->write, '='))
        return place->overrides;
    bool operand = row->write[0] >= 'A' && row->write[0] <= 'Z';
    return !operand || strncmp(place->operands, row->write, strlen(row->write)) == 0;
}

bool other_option(const other_option_place *place, const char *given, const char *value, clt_str *out)
{
    if (value && value[0] == '-') /* the next word is an option */
        value = NULL;
    for (size_t i = 0; i < COUNT(options); i++) {
        const other_option_row *row = &options[i];
        if (!is_one_of(row->words, given, strcspn(given, "=")) || !fits(row, place))
            continue;
        bool operand = row->write[0] >= 'A' && row->write[0] <= 'Z';
        bool command = row->write[0] >= 'a' && row->write[0] <= 'z' && !strchr(row->write, '=');
        if (operand)
            clt_str_printf(out, "; %s is the first argument: cltrain %s ", row->write, place->command);
        else if (command)
            clt_str_printf(out, "; write: cltrain %s", row->write);
        else
            clt_str_printf(out, "; write: %s", row->write);
        if (row->value && !operand)
            clt_str_append(out, " ");
        if (row->value && value && *value)
            shell_append_word(out, value);
        else if (row->value)
            clt_str_append(out, operand ? row->write : command ? "N" : "VALUE");
        if (command)
            clt_str_append(out, " CONFIG");
        return true;
    }
    return false;
}
