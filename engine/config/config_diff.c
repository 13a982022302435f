/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two resolved configs, for resuming: keys that change what is computed must be equal, others may
 * change on conditions. Knows only names of keys and JSON. */
#include <string.h>

#include "engine/config/config_internal.h"
#include "engine/config/part.h"

/* A list entry that ends with a '.' means every key of that section. */
static bool is_one_of(const char *path, const char *const *keys)
{
    for (; *keys; keys++) {
        size_t n = strlen(*keys);
        if ((*keys)[n - 1] == '.' ? strncmp(*keys, path, n) == 0 : strcmp(*keys, path) == 0)
            return true;
    }
    return false;
}

/* The kinds of a key (CLT_KEYS_*). */
static unsigned kind_of(const char *path)
{
    static const char *const free_keys[] = {
        "device.", "checkpoint.", "cloud.", "cost.", "hooks.", "log.", "monitor.", "storage.",
        "parallel.deadline", "parallel.start_deadline", "parallel.share_devices", "parallel.allreduce",
        "parallel.bind", "parallel.embeddings",
        "data.global_batch",                            /* resuming compares the batch that results */
        "data.workers", "data.prefetch", "data.joined", /* resuming compares the tokens that result */
        /* on_bad_sample makes no difference to a run without bad samples */
        "data.on_bad_sample", "data.eval_path", "data.eval_targets", "data.cache_mb", "data.window_overlap",
        "data.window_weights", "train.log_every", "train.eval_every", "train.eval_batches",
        "train.eval_metrics", "train.eval_top_k", "train.eval_background", "train.early_stop_evals",
        "train.early_stop_delta", "train.max_nonfinite", "train.on_spike", "train.spike_loss",
        "train.spike_gradient", "train.spike_window", "train.recompute", "parallel.bucket_mb",
        "parallel.shared_memory", "parallel.first_bucket_mb", "parallel.shard",
        "data.micro_batch", /* resuming compares the global batch */
        NULL};
    static const char *const rate[] = {"optimizer.learning_rate", "optimizer.weight_decay", NULL};
    static const char *const length[] = {"train.steps", "train.epochs", "schedule.", NULL};
    static const char *const data[] = {"data.path", "data.targets", "data.tokenizer", NULL};
    static const char *const table[] = {"data.target",
                                        "data.columns",
                                        "data.drop_columns",
                                        "data.words",
                                        "data.fill",
                                        "data.standardize",
                                        "data.class_names",
                                        "data.scale",
                                        "data.mean",
                                        "data.std",
                                        NULL};
    return is_one_of(path, free_keys)        ? CLT_KEYS_FREE
           : is_one_of(path, length)         ? CLT_KEYS_LENGTH
           : is_one_of(path, rate)           ? CLT_KEYS_RATE
           : is_one_of(path, data)           ? CLT_KEYS_DATA
           : strcmp(path, "model.init") == 0 ? CLT_KEYS_START
           : is_one_of(path, table)          ? CLT_KEYS_FIXED | CLT_KEYS_TABLE
                                             : CLT_KEYS_FIXED;
}

/* One comparison of two configs: its options and its output. */
typedef struct comparing {
    unsigned kinds;
    const clt_config_part *format; /* the saved config's data.type; NULL: unknown */
    clt_str *out;
    clt_str *give; /* receives overrides that repeat the older program's behaviour; NULL: not wanted */
    int lines, given;
} comparing;

/* The value that repeats the behaviour of an older program without this key, from the schema, for keys of the
 * config's data format. NULL: it is the default. */
static const char *older_text(const comparing *c, const char *path)
{
    int index = clt_config_part_has(c->format, path) ? clt_config_key_index(path) : -1;
    return index < 0 ? NULL : clt_config_schema()[index].older_text;
}

/* The value of a key that the older program did not know: the schema's value for older configs, else the
 * default. */
static const char *unset_text(const comparing *c, const char *path)
{
    const char *older = older_text(c, path);
    int index = clt_config_key_index(path);
    if (older)
        return older;
    return index >= 0 && clt_config_schema()[index].default_text ? clt_config_schema()[index].default_text
                                                                 : "(unset)";
}

static void value_text(const comparing *c, const char *path, const clt_json *value, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 0);
    if (value)
        clt_jw_value(&w, value);
    else
        clt_str_append(out, unset_text(c, path));
}

/* Appends an override such as " data.fill=refuse"; a string loses its quotes. */
static void give_older(comparing *c, const char *path)
{
    const char *text = older_text(c, path);
    size_t quoted = *text == '"', length = strlen(text);
    clt_str_printf(c->give, "%s%s=%.*s", c->give->length ? " " : "", path, (int)(length - 2 * quoted),
                   text + quoted);
    c->given++;
}

/* True if a difference of these values is harmless, or is checked elsewhere. */
static bool may_differ(const comparing *c, const char *path, const char *a, const char *b)
{
    /* 0: the scale follows from the data, and resuming compares the resulting scale */
    return strcmp(path, "data.scale") == 0 && !(c->kinds & CLT_KEYS_TABLE) &&
           (strcmp(a, "0") == 0 || strcmp(b, "0") == 0);
}

static void compare_key(comparing *c, const char *section, const char *key, const clt_json *was,
                        const clt_json *is)
{
    CLT_SCOPED(clt_str) path = {0}, a = {0}, b = {0};
    clt_str_printf(&path, "%s.%s", section, key);
    value_text(c, path.text ? path.text : "", was, &a);
    value_text(c, path.text ? path.text : "", is, &b);
    c->out->failed = c->out->failed || path.failed || a.failed || b.failed;
    if (!c->out->failed && path.text && a.text && b.text && strcmp(a.text, b.text) != 0 &&
        (kind_of(path.text) & c->kinds) != 0 && !may_differ(c, path.text, a.text, b.text)) {
        clt_str_printf(c->out, "%s%s: was %s, is %s", c->out->length ? "\n" : "", path.text, a.text, b.text);
        c->lines++;
        if (c->give && !was && older_text(c, path.text))
            give_older(c, path.text);
    }
}

static void compare(comparing *c, const clt_json *was, const clt_json *is)
{
    for (const clt_json *section = clt_json_first(is); section; section = clt_json_next(section)) {
        const char *name = clt_json_key(section);
        const clt_json *old = clt_json_get(was, name);
        if (clt_json_typeof(section) != CLT_JSON_OBJECT || name[0] == '_')
            continue;
        for (const clt_json *v = clt_json_first(section); v; v = clt_json_next(v))
            compare_key(c, name, clt_json_key(v), clt_json_get(old, clt_json_key(v)), v);
        for (const clt_json *v = clt_json_first(old); v; v = clt_json_next(v))
            if (!clt_json_get(section, clt_json_key(v)))
                compare_key(c, name, clt_json_key(v), v, NULL);
    }
}

/* The data format of a resolved config; NULL: unknown. */
static const clt_config_part *format_of(const clt_json *root)
{
    const clt_json *data = clt_json_get(root, "data");
    const clt_json *type = clt_json_get(data, "type");
    return clt_json_typeof(type) == CLT_JSON_STRING ? clt_config_part_find("data.type", clt_json_string(type))
                                                    : NULL;
}

static clt_status diff(const char *resolved, const clt_config *config, comparing *c)
{
    CLT_SCOPED(clt_json_doc) *was = NULL;
    CLT_SCOPED(clt_json_doc) *is = NULL;
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(clt_config_print(config, false, &text));
    CLT_TRY(clt_json_parse(text.text, text.length, "config", CLT_ECONFIG, &is));
    CLT_TRY(clt_json_parse(resolved, strlen(resolved), "the resolved config", CLT_ECONFIG, &was));
    c->format = format_of(clt_json_root(was));
    compare(c, clt_json_root(was), clt_json_root(is));
    CLT_TRY(clt_str_check(c->out));
    return c->give ? clt_str_check(c->give) : CLT_OK;
}

clt_status clt_config_diff(const char *resolved, const clt_config *config, unsigned kinds, clt_str *out)
{
    comparing c = {.kinds = kinds, .out = out};
    return diff(resolved, config, &c);
}

clt_status clt_config_check_fixed(const char *resolved, const clt_config *config, const char *from)
{
    CLT_SCOPED(clt_str) lines = {0};
    CLT_SCOPED(clt_str) give = {0};
    comparing c = {.kinds = CLT_KEYS_FIXED, .out = &lines, .give = &give};
    CLT_TRY(clt_fail_prefix(diff(resolved, config, &c), "resuming from '%s'", from));
    if (c.given > 0)
        CLT_FAIL(CLT_ECONFIG,
                 "resuming from '%s': the program that saved it did not know %s yet; give %s, which is what "
                 "it did%s, or start a new run with --init\n%s",
                 from, c.given > 1 ? "some of these keys" : "one of these keys", give.text,
                 c.lines > c.given ? ", and undo the other changes" : "", lines.text);
    if (lines.length)
        CLT_FAIL(CLT_ECONFIG,
                 "resuming from '%s': the config has changed; undo that, or start a new run with --init\n%s",
                 from, lines.text);
    return CLT_OK;
}
