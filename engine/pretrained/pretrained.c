/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the config.json of a GPT-2, as transformers writes it, into keys of our model section. Settings with
 * which the model would compute something that ours cannot are refused by name; settings that do not affect
 * the computation are ignored. The file comes from a stranger, so every type is checked. */
#include "engine/pretrained/pretrained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/config/part.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/files/fileio.h"

#define MAX_PRESETS 40
#define CONFIG_MAX_BYTES 16000000u

struct clt_pretrained {
    clt_arena *arena;
    const char *folder, *config_path; /* NULL for a file of weights */
    clt_json_doc *doc;
    const clt_json *root;
    clt_config_preset items[MAX_PRESETS];
    int count;
    clt_config_presets presets;
    clt_str problems;
    int tensors; /* number of tensors in the weights */
};

/* --- reading --- */

static void problem(clt_pretrained *p, const char *key, const char *why)
{
    clt_str_printf(&p->problems, "\n  %s: %s", key, why);
}

/* The value of the first of several names of a key that is present and not null. */
static const clt_json *find(const clt_pretrained *p, const char *const *names, const char **name)
{
    for (int i = 0; names[i]; i++) {
        const clt_json *value = clt_json_get(p->root, names[i]);
        *name = names[i];
        if (value && clt_json_typeof(value) != CLT_JSON_NULL)
            return value;
    }
    *name = names[0];
    return NULL;
}

static void add(clt_pretrained *p, const char *key, const char *value, const char *reason,
                clt_preset_kind kind, const char *data_type)
{
    if (p->count < MAX_PRESETS)
        p->items[p->count++] = (clt_config_preset){key, value, reason, kind, data_type};
}

/* Reads an integer of at least 1. */
static int64_t read_count(clt_pretrained *p, const char *const *names, int64_t preset, const char **reason)
{
    const char *name;
    const clt_json *value = find(p, names, &name);
    int64_t number = preset;
    if (value && (!clt_json_int(value, &number) || number < 1 || number > INT32_MAX)) {
        problem(p, name, "is not a whole number of at least 1");
        number = preset;
    }
    *reason = value ? clt_arena_printf(p->arena, "%s is %lld", name, (long long)number)
                    : clt_arena_printf(p->arena, "%s is left out, which means %lld", name, (long long)number);
    return number;
}

static int64_t add_count(clt_pretrained *p, const char *key, const char *const *names, int64_t preset,
                         clt_preset_kind kind)
{
    const char *reason;
    int64_t number = read_count(p, names, preset, &reason);
    add(p, key, clt_arena_printf(p->arena, "%lld", (long long)number), reason, kind, NULL);
    return number;
}

static bool read_bool(clt_pretrained *p, const char *name, bool preset)
{
    const clt_json *value = clt_json_get(p->root, name);
    if (!value || clt_json_typeof(value) == CLT_JSON_NULL)
        return preset;
    if (clt_json_typeof(value) != CLT_JSON_BOOL) {
        problem(p, name, "is neither true nor false");
        return preset;
    }
    return clt_json_bool(value);
}

static double read_number(clt_pretrained *p, const char *name, double preset)
{
    const clt_json *value = clt_json_get(p->root, name);
    if (!value || clt_json_typeof(value) == CLT_JSON_NULL)
        return preset;
    if (clt_json_typeof(value) != CLT_JSON_NUMBER) {
        problem(p, name, "is not a number");
        return preset;
    }
    return clt_json_number(value);
}

/* --- parts of the model --- */

/* Transformers' "gelu" is the exact function; "gelu_new" is the tanh approximation that GPT-2 was trained
 * with. */
static void read_activation(clt_pretrained *p)
{
    static const char *const names[][2] = {{"gelu_new", "gelu_tanh"},  {"gelu_pytorch_tanh", "gelu_tanh"},
                                           {"gelu_fast", "gelu_tanh"}, {"gelu_accurate", "gelu_tanh"},
                                           {"gelu", "gelu"},           {"gelu_python", "gelu"},
                                           {"relu", "relu"},           {"silu", "silu"},
                                           {"swish", "silu"}};
    const clt_json *value = clt_json_get(p->root, "activation_function");
    const char *said = value ? clt_json_string(value) : "gelu_new", *ours = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], said) == 0)
            ours = names[i][1];
    if (!ours) {
        const char *why = clt_arena_printf(
            p->arena, "'%.40s' is none of gelu_new, gelu, relu and silu, which cltrain's gpt has", said);
        problem(p, "activation_function", why ? why : "");
        return;
    }
    add(p, "model.activation", clt_arena_printf(p->arena, "\"%s\"", ours),
        clt_arena_printf(p->arena, "activation_function is %s", said), CLT_PRESET_EQUAL, NULL);
}

static bool equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* Transformers has three dropout rates, our config one. If the three differ, the user has to choose. */
static void read_dropout(clt_pretrained *p)
{
    char number[CLT_NUMBER_TEXT];
    double resid = read_number(p, "resid_pdrop", 0.1), embd = read_number(p, "embd_pdrop", 0.1),
           attn = read_number(p, "attn_pdrop", 0.1);
    if (!(resid >= 0 && resid < 1 && embd >= 0 && embd < 1 && attn >= 0 && attn < 1)) {
        problem(p, "resid_pdrop, embd_pdrop, attn_pdrop", "must be at least 0 and below 1");
        return;
    }
    const char *reason =
        clt_arena_printf(p->arena, "resid_pdrop is %g, embd_pdrop %g and attn_pdrop %g", resid, embd, attn);
    if (equal(resid, embd) && equal(resid, attn))
        add(p, "model.dropout", clt_arena_strdup(p->arena, clt_double_text(resid, number)), reason,
            CLT_PRESET_DEFAULT, NULL);
    else
        add(p, "model.dropout", NULL,
            clt_arena_printf(p->arena, "%s, and there is one dropout for all three places",
                             reason ? reason : ""),
            CLT_PRESET_MISSING, NULL);
}

/* Reads whether the output layer is tied. The config's key decides, because the tensors of some known files
 * suggest otherwise; the tensors are compared later in any case. */
static void read_tied(clt_pretrained *p)
{
    bool tied = read_bool(p, "tie_word_embeddings", true);
    add(p, "model.tied", tied ? "true" : "false",
        tied ? "tie_word_embeddings is true" : "tie_word_embeddings is false", CLT_PRESET_DEFAULT, NULL);
}

/* Refuses settings that change the computation and have no key of ours. */
static void refuse_others(clt_pretrained *p, int64_t channels)
{
    int64_t inner;
    const clt_json *value = clt_json_get(p->root, "n_inner");
    if (value && clt_json_typeof(value) != CLT_JSON_NULL &&
        (!clt_json_int(value, &inner) || inner != 4 * channels))
        problem(p, "n_inner", "the inner width of cltrain's gpt is always four times n_embd");
    if (!equal(read_number(p, "layer_norm_epsilon", 1e-5), 1e-5))
        problem(p, "layer_norm_epsilon", "it is always 1e-05 in cltrain's gpt");
    if (!read_bool(p, "scale_attn_weights", true))
        problem(p, "scale_attn_weights",
                "is false: cltrain's gpt always divides scores by the root of the head's width");
    if (read_bool(p, "scale_attn_by_inverse_layer_idx", false))
        problem(p, "scale_attn_by_inverse_layer_idx",
                "is true: cltrain's gpt does not divide scores by the number of the layer");
    if (read_bool(p, "add_cross_attention", false))
        problem(p, "add_cross_attention", "is true: cltrain's gpt has no attention to another text");
    if ((value = clt_json_get(p->root, "quantization_config")) && clt_json_typeof(value) != CLT_JSON_NULL)
        problem(p, "quantization_config", "the weights are quantised; save them as floating-point numbers");
    if ((value = clt_json_get(p->root, "auto_map")) && clt_json_typeof(value) != CLT_JSON_NULL)
        problem(p, "auto_map", "the model has code of its own, which may compute anything");
    if ((value = clt_json_get(p->root, "pruned_heads")) && clt_json_count(value) > 0)
        problem(p, "pruned_heads", "cltrain's gpt has all heads in every layer");
}

static clt_status check_type(const clt_pretrained *p)
{
    const clt_json *type = clt_json_get(p->root, "model_type");
    const char *name = type ? clt_json_string(type) : "";
    if (clt_json_typeof(p->root) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_ECHECKPOINT, "reading '%s': it is not a JSON object, so not the config.json of a model",
                 p->config_path);
    if (strcmp(name, "gpt2") != 0)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "reading '%s': model_type is '%.60s'; cltrain takes gpt2 (learned positions, norms before "
                 "attention and feed-forward part, packed queries, keys and values)",
                 p->config_path, name);
    return CLT_OK;
}

static clt_status read_model(clt_pretrained *p)
{
    static const char *const layers[] = {"n_layer", "num_hidden_layers", NULL},
                             *const heads[] = {"n_head", "num_attention_heads", NULL},
                             *const channels[] = {"n_embd", "hidden_size", NULL},
                             *const context[] = {"n_positions", "max_position_embeddings", "n_ctx", NULL},
                             *const vocab[] = {"vocab_size", NULL};
    CLT_TRY(check_type(p));
    add(p, "model.type", "\"gpt\"", "model_type is gpt2", CLT_PRESET_EQUAL, NULL);
    if (add_count(p, "model.layers", layers, 12, CLT_PRESET_EQUAL) > p->tensors)
        problem(p, "n_layer", "is more than the weights have tensors");
    int64_t n_heads = add_count(p, "model.heads", heads, 12, CLT_PRESET_EQUAL);
    int64_t width = add_count(p, "model.channels", channels, 768, CLT_PRESET_EQUAL);
    add_count(p, "model.context", context, 1024, CLT_PRESET_AT_MOST);
    add_count(p, "model.vocab", vocab, 50257, CLT_PRESET_EQUAL);
    add(p, "model.bias", "true", "GPT-2 has biases", CLT_PRESET_EQUAL, NULL);
    if (width % n_heads != 0)
        problem(p, "n_embd", "is no multiple of n_head");
    read_tied(p);
    read_activation(p);
    read_dropout(p);
    refuse_others(p, width);
    CLT_TRY(clt_str_check(&p->problems));
    if (p->problems.length)
        CLT_FAIL(CLT_EUNSUPPORTED, "'%.600s' describes a model that cltrain's gpt cannot represent:%.3000s",
                 p->config_path, p->problems.text);
    return CLT_OK;
}

/* --- the folder --- */

static bool holds(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    if (clt_path_join(folder, name, &path) == CLT_OK)
        return clt_is_regular(path);
    clt_error_clear();
    return false;
}

/* True for a run folder, its checkpoints folder or a step_N folder. */
static bool is_checkpoint(const char *path)
{
    return clt_is_directory(path) && (holds(path, "manifest.json") || clt_checkpoint_exists(path));
}

static bool has_tokenizer(const char *folder)
{
    return holds(folder, "tokenizer.json") || holds(folder, "vocab.json") || holds(folder, "encoder.json");
}

static clt_status add_tokenizer(clt_pretrained *p, const char *path, const char *reason)
{
    clt_str quoted = {0};
    clt_json_writer w = clt_json_writer_make(&quoted, 0);
    clt_jw_string(&w, path);
    const char *value = clt_str_check(&quoted) == CLT_OK ? clt_arena_strdup(p->arena, quoted.text) : NULL;
    clt_str_free(&quoted);
    if (!value)
        return CLT_ENOMEM;
    add(p, "data.tokenizer", value, reason, CLT_PRESET_DEFAULT, "text");
    return CLT_OK;
}

static clt_status read_folder(clt_pretrained *p)
{
    CLT_FREED char *path = NULL;
    CLT_FREED char *text = NULL;
    size_t size;
    CLT_TRY(clt_path_join(p->folder, "config.json", &path));
    p->config_path = clt_arena_strdup(p->arena, path);
    if (!p->config_path)
        return CLT_ENOMEM;
    if (!clt_is_regular(path))
        CLT_FAIL(CLT_ECHECKPOINT,
                 "'%.600s' holds no config.json, so it is no folder that save_pretrained wrote; for weights "
                 "alone name their file, such as %.600s/model.safetensors",
                 p->folder, p->folder);
    CLT_TRY(clt_file_read(p->config_path, false, CONFIG_MAX_BYTES, CLT_ECHECKPOINT, &text, &size));
    CLT_TRY(clt_json_parse(text, size, p->config_path, CLT_ECHECKPOINT, &p->doc));
    p->root = clt_json_root(p->doc);
    CLT_TRY(read_model(p));
    return has_tokenizer(p->folder) ? add_tokenizer(p, p->folder, "the tokenizer lies beside the weights")
                                    : CLT_OK;
}

/* --- checkpoints of our own --- */

/* Keys that decide which parameters exist, and keys that decide what is computed with them. */
static clt_preset_kind kind_of(const char *key, const char *value)
{
    static const char *const fixed[] = {"model.type",      "model.activation", "model.bias",
                                        "model.embedding", "model.outputs",    "model.heads",
                                        "model.vocab",     "model.channels",   "model.tied"};
    if (strcmp(key, "model.context") == 0)
        return CLT_PRESET_AT_MOST;
    if (strcmp(key, "model.layers") == 0 && *value != '[')
        return CLT_PRESET_EQUAL;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (strcmp(fixed[i], key) == 0)
            return CLT_PRESET_EQUAL;
    return CLT_PRESET_DEFAULT;
}

/* Reads the keys that are set in the model section of the run. */
static clt_status read_section(clt_pretrained *p, const clt_config *config)
{
    const clt_json *model = clt_config_model(config, NULL);
    for (const clt_json *value = model ? clt_json_first(model) : NULL; value; value = clt_json_next(value)) {
        CLT_SCOPED(clt_str) text = {0};
        clt_json_writer w = clt_json_writer_make(&text, 0);
        clt_jw_value(&w, value);
        CLT_TRY(clt_str_check(&text));
        bool open =
            strcmp(text.text, "0") == 0 || strcmp(text.text, "\"auto\"") == 0 || strcmp(text.text, "[]") == 0;
        const char *key = clt_arena_printf(p->arena, "model.%s", clt_json_key(value));
        if (!key)
            CLT_FAIL(CLT_ENOMEM, "reading '%s': out of host memory", p->config_path);
        if (!open)
            add(p, key, clt_arena_strdup(p->arena, text.text),
                clt_arena_printf(p->arena, "%s is %.60s", key, text.text), kind_of(key, text.text), NULL);
    }
    return CLT_OK;
}

static clt_status read_checkpoint(clt_pretrained *p, const char *path)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    CLT_TRY(clt_saved_run_open(path, NULL, &saved));
    p->config_path = clt_arena_printf(p->arena, "%s/config.json", saved->path);
    CLT_TRY(p->config_path ? read_section(p, saved->config) : CLT_ENOMEM);
    const char *tokenizer = clt_config_string(saved->config, "data.tokenizer");
    return *tokenizer ? add_tokenizer(p, tokenizer, "the run has a tokenizer") : CLT_OK;
}

/* An error if a text of the arena is NULL because memory ran out. */
static clt_status check_texts(const clt_pretrained *p)
{
    for (int i = 0; i < p->count; i++)
        if (!p->items[i].reason || (!p->items[i].value && p->items[i].kind != CLT_PRESET_MISSING))
            CLT_FAIL(CLT_ENOMEM, "reading '%s': out of host memory", p->config_path);
    return CLT_OK;
}

clt_status clt_pretrained_open(const char *path, clt_pretrained **out)
{
    CLT_SCOPED(clt_pretrained) *p = NULL;
    CLT_SCOPED(clt_safetensors) *weights = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&p, 1, sizeof *p, "pretrained weights"));
    CLT_TRY(clt_arena_create(&p->arena));
    if (is_checkpoint(path)) {
        CLT_TRY(read_checkpoint(p, path));
    } else {
        /* a folder without weights is the wrong path, whatever else it contains */
        CLT_TRY(clt_weights_open(path, &weights));
        p->tensors = clt_safetensors_count(weights);
        if (clt_is_directory(path)) {
            p->folder = clt_arena_strdup(p->arena, path);
            CLT_TRY(p->folder ? read_folder(p) : CLT_ENOMEM);
        }
    }
    CLT_TRY(check_texts(p));
    *out = CLT_TAKE(p);
    return CLT_OK;
}

void clt_pretrained_close(clt_pretrained *p)
{
    if (!p)
        return;
    clt_str_free(&p->problems);
    clt_json_destroy(p->doc);
    clt_arena_destroy(p->arena);
    free(p);
}

const clt_config_presets *clt_pretrained_presets(clt_pretrained *p, bool training)
{
    int kept = 0;
    for (int i = 0; i < p->count; i++) /* evaluation has no dropout, so its rate is not preset */
        if (training || p->items[i].kind != CLT_PRESET_MISSING)
            p->items[kept++] = p->items[i];
    p->count = kept;
    p->presets = (clt_config_presets){p->config_path ? p->config_path : "", p->items, p->count};
    return &p->presets;
}

/* --- tokenizer --- */

static clt_status compare(const char *folder, const clt_tokenizer *own, const clt_tokenizer *used,
                          int64_t vocab)
{
    int64_t tokens = clt_tokenizer_vocab(used), theirs = own ? (int64_t)clt_tokenizer_vocab(own) : vocab;
    const char *what = clt_tokenizer_description(used);
    CLT_SCOPED(clt_str) surplus = {0};
    bool special = clt_tokenizer_surplus(used, vocab, &surplus);
    CLT_TRY(clt_str_check(&surplus));
    if (tokens > vocab && special)
        CLT_INFO(
            "the model of '%.300s' has no rows for special tokens of the tokenizer (%.300s), to which no "
            "text leads: %s",
            folder, what, surplus.text);
    else if (tokens > vocab)
        CLT_FAIL(CLT_EDATA,
                 "the data's tokenizer (%.300s) has %lld tokens, the model of '%.300s' %lld, which lacks %s; "
                 "give the tokenizer that its weights were trained with as data.tokenizer",
                 what, (long long)tokens, folder, (long long)vocab, surplus.text);
    if (own && tokens != theirs)
        CLT_FAIL(
            CLT_EDATA,
            "the data's tokenizer (%.300s) has %lld tokens, the one beside the weights of '%.300s' %lld: the "
            "ids would mean other texts; leave data.tokenizer out to use the weights' own",
            what, (long long)tokens, folder, (long long)theirs);
    if (!own && tokens != theirs && clt_tokenizer_is_bytes(used))
        CLT_FAIL(
            CLT_EDATA,
            "the data's tokenizer (%.300s) has %lld tokens, the weights of '%.300s' were made for %lld, and "
            "no tokenizer lies beside them; set data.tokenizer to the one that they were trained with",
            what, (long long)tokens, folder, (long long)theirs);
    if (own && clt_tokenizer_hash(own) != clt_tokenizer_hash(used))
        CLT_WARN(
            "the data's tokenizer (%.300s) is another one than that beside the weights of '%.300s'; ids may "
            "mean other texts",
            what, folder);
    return CLT_OK;
}

clt_status clt_pretrained_check_tokenizer(const char *path, const clt_config *config)
{
    CLT_SCOPED(clt_tokenizer) *own = NULL;
    CLT_SCOPED(clt_tokenizer) *used = NULL;
    bool reads_text = clt_config_chosen(config, "data.type")->language;
    int64_t vocab = clt_config_int(config, "model.vocab");
    if (!clt_is_directory(path) || !reads_text || vocab < 1)
        return CLT_OK;
    CLT_TRY(clt_tokenizer_open_config(config, &used));
    if (has_tokenizer(path))
        CLT_TRY(clt_fail_prefix(clt_tokenizer_open(path, &own), "opening the tokenizer beside the weights"));
    return used ? compare(path, own, used, vocab) : CLT_OK;
}

/* --- a config --- */

clt_status clt_pretrained_config(const clt_pretrained *p, clt_str *out)
{
    if (!p->folder)
        CLT_FAIL(
            CLT_EUSAGE,
            "a config can be made from a folder that save_pretrained wrote, not from a file of weights; a "
            "run has its own, config.resolved.json");
    clt_str_append(out, "{\n  \"model\": {\n");
    int written = 0;
    for (int i = 0; i < p->count; i++) {
        const clt_config_preset *preset = &p->items[i];
        bool model = strncmp(preset->key, "model.", 6) == 0;
        if (model)
            clt_str_printf(out, "%s    \"%s\": %s", written++ ? ",\n" : "", preset->key + 6,
                           preset->value ? preset->value : "0.1");
    }
    clt_str_append(out, "\n  },\n  \"data\": {\n    \"type\": \"text\",\n    \"path\": \"text.txt\"");
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->items[i].key, "data.tokenizer") == 0)
            clt_str_printf(out, ",\n    \"tokenizer\": %s", p->items[i].value);
    clt_str_append(out,
                   ",\n    \"micro_batch\": 8\n  },\n"
                   "  \"optimizer\": {\"type\": \"adamw\", \"learning_rate\": 5e-05, \"weight_decay\": 0.01, "
                   "\"clip\": 1},\n"
                   "  \"schedule\": {\"type\": \"linear\"},\n"
                   "  \"train\": {\"steps\": 1000, \"eval_every\": 100}\n}\n");
    return clt_str_check(out);
}
