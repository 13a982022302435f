/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the parts of a GGUF file other than tensors: llama.cpp's keys for the model, and the tokenizer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/chat/chat_text.h"
#include "engine/pretrained/gguf/gguf_internal.h"

/* Types of values, by their numbers in the format. */
enum { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_TEXT = 8, VALUE_ARRAY = 9 };
/* Kinds of tokens in tokenizer.ggml.token_type. */
enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_ADDED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

void clt_gguf_number(clt_str *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        clt_str_append_n(out, (const char[]){(char)(value & 255)}, 1);
}

void clt_gguf_text(clt_str *out, const char *text, size_t length)
{
    clt_gguf_number(out, length, 8);
    clt_str_append_n(out, text, length);
}

/* The pairs written so far. */
typedef struct pairs {
    clt_str *out;
    uint64_t count;
    const char *architecture;
} pairs;

/* Begins a pair; a key that begins with a dot gets the architecture before it. */
static void begin(pairs *p, const char *key, int type)
{
    char name[128];
    int length = snprintf(name, sizeof name, "%s%s", *key == '.' ? p->architecture : "", key);
    clt_gguf_text(p->out, name, (size_t)length);
    clt_gguf_number(p->out, (uint64_t)type, 4);
    p->count++;
}

static void put_text(pairs *p, const char *key, const char *text)
{
    begin(p, key, VALUE_TEXT);
    clt_gguf_text(p->out, text, strlen(text));
}

static void put_int(pairs *p, const char *key, int64_t value)
{
    begin(p, key, VALUE_U32);
    clt_gguf_number(p->out, (uint64_t)value, 4);
}

static void put_float(pairs *p, const char *key, double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    begin(p, key, VALUE_F32);
    clt_gguf_number(p->out, bits, 4);
}

static void put_bool(pairs *p, const char *key, bool value)
{
    begin(p, key, VALUE_BOOL);
    clt_gguf_number(p->out, value, 1);
}

static void begin_array(pairs *p, const char *key, int type, uint64_t count)
{
    begin(p, key, VALUE_ARRAY);
    clt_gguf_number(p->out, (uint64_t)type, 4);
    clt_gguf_number(p->out, count, 8);
}

/* --- the model --- */

static bool is(const hf_export *x, const char *key, const char *word)
{
    return strcmp(clt_config_string(x->saved->config, key), word) == 0;
}

static clt_status refuse(const hf_export *x, const char *why)
{
    CLT_FAIL(CLT_EUNSUPPORTED,
             "exporting '%s' as GGUF: %s; --format hf writes a folder for transformers instead",
             x->saved->path, why);
}

static clt_status check_llama(const hf_export *x)
{
    const clt_config *c = x->saved->config;
    bool yarn = is(x, "model.rope_scaling", "yarn");
    double high = clt_config_float(c, "model.rope_high"), low = clt_config_float(c, "model.rope_low");
    if (x->window > 0 && x->window < x->context)
        return refuse(x, "llama.cpp computes models of this kind without the window (model.window), which is "
                         "smaller than the context");
    if (is(x, "model.rope_scaling", "dynamic"))
        return refuse(x, "llama.cpp has no dynamic scaling of rotary positions (model.rope_scaling)");
    if (yarn && (clt_config_float(c, "model.rope_attention") > 0 || low < 1 || low > 1 ||
                 (high > 0 && (high < 32 || high > 32))))
        return refuse(x, "llama.cpp has yarn's scaling with its usual limits only (model.rope_low 1, "
                         "model.rope_high 32, model.rope_attention 0)");
    return CLT_OK;
}

clt_status clt_gguf_architecture(const hf_export *x, const char **name)
{
    if (x->family == &hf_family_gpt2) {
        if (strcmp(x->activation, "gelu_new") != 0)
            return refuse(x, "llama.cpp computes GPT-2 with model.activation gelu_tanh only");
        *name = "gpt2";
        return CLT_OK;
    }
    if (x->family == &hf_family_bert)
        return refuse(
            x, "the run's model is a bert, an encoder, and llama.cpp's formats for these are not written; "
               "gpts and llamas are");
    /* Mistral is Llama with a window, which is wider than the context here */
    *name = strncmp(x->model_type, "qwen", 4) == 0 ? x->model_type : "llama";
    return check_llama(x);
}

clt_status clt_gguf_rope_factors(const hf_export *x, float **factors)
{
    const clt_config *c = x->saved->config;
    *factors = NULL;
    if (x->family == &hf_family_gpt2 || !is(x, "model.rope_scaling", "llama3"))
        return CLT_OK;
    const double low = clt_config_float(c, "model.rope_low"), base = clt_config_float(c, "model.rope_base");
    const double factor = clt_config_float(c, "model.rope_factor");
    double high = clt_config_float(c, "model.rope_high");
    high = high > 0 ? high : 4;
    CLT_TRY(clt_alloc(factors, (size_t)(x->head_dim / 2), sizeof **factors, "rotary factors"));
    for (int64_t i = 0; i < x->head_dim / 2; i++) {
        double turns = (double)clt_config_int(c, "model.rope_original") / (2 * acos(-1)) *
                       pow(base, -2.0 * (double)i / (double)x->head_dim);
        double kept = (turns - low) / (high - low);
        kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
        (*factors)[i] = (float)(1 / ((1 - kept) / factor + kept));
    }
    return CLT_OK;
}

static void put_rotary(const hf_export *x, pairs *p)
{
    const clt_config *c = x->saved->config;
    const char *scaling = clt_config_string(c, "model.rope_scaling");
    put_int(p, ".rope.dimension_count", x->head_dim);
    put_float(p, ".rope.freq_base", clt_config_float(c, "model.rope_base"));
    if (strcmp(scaling, "linear") != 0 && strcmp(scaling, "yarn") != 0)
        return;
    put_text(p, ".rope.scaling.type", scaling);
    put_float(p, ".rope.scaling.factor", clt_config_float(c, "model.rope_factor"));
    if (strcmp(scaling, "yarn") == 0)
        put_int(p, ".rope.scaling.original_context_length", clt_config_int(c, "model.rope_original"));
}

static void put_model(const hf_export *x, clt_gguf_type type, pairs *p)
{
    bool gpt2 = x->family == &hf_family_gpt2;
    int file_type = type == CLT_GGUF_F32 ? 0 : type == CLT_GGUF_F16 ? 1 : type == CLT_GGUF_Q8_0 ? 7 : 32;
    put_text(p, "general.architecture", p->architecture);
    put_text(p, "general.type", "model");
    put_text(p, "general.name", p->architecture);
    put_int(p, "general.alignment", CLT_GGUF_ALIGNMENT);
    put_int(p, "general.quantization_version", 2);
    put_int(p, "general.file_type", file_type);
    put_int(p, ".vocab_size", x->vocab);
    put_int(p, ".context_length", x->context);
    put_int(p, ".embedding_length", x->channels);
    put_int(p, ".block_count", x->layers);
    put_int(p, ".feed_forward_length", gpt2 ? 4 * x->channels : x->inner);
    put_int(p, ".attention.head_count", x->heads);
    put_int(p, ".attention.head_count_kv", gpt2 ? x->heads : x->kv_heads);
    if (gpt2) {
        put_float(p, ".attention.layer_norm_epsilon", 1e-5);
        return;
    }
    put_float(p, ".attention.layer_norm_rms_epsilon", clt_config_float(x->saved->config, "model.norm_eps"));
    put_int(p, ".attention.key_length", x->head_dim);
    put_int(p, ".attention.value_length", x->head_dim);
    put_rotary(x, p);
}

/* --- the tokenizer --- */

/* True for a token at which llama.cpp ends a text because of its name. */
static bool ends_by_name(const clt_str *name)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>",
                                        "<|eom_id|>"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (name->text && strcmp(name->text, names[i]) == 0)
            return true;
    return false;
}

static void note_missed(const hf_export *x, const clt_str *name, int64_t id)
{
    char *ends = x->result->ends;
    const size_t used = strlen(ends), size = sizeof x->result->ends;
    if (used + name->length + 40 < size)
        snprintf(ends + used, size - used, "%s\"%s\" (%lld)", used ? ", " : "", name->text ? name->text : "",
                 (long long)id);
}

/* llama.cpp ends a text at the tokens of three keys, and at tokens with certain names. The first key is for
 * the end of text. The other keys are for tokens whose names llama.cpp does not know, first the end marker of
 * answers. */
static clt_status put_ends(const hf_export *x, pairs *p)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const int64_t end_of_text = hf_id_of(x, CLT_TOKEN_END_OF_TEXT);
    const int n_keys = (int)(sizeof keys / sizeof keys[0]);
    int used = 0;
    CLT_SCOPED(clt_str) name = {0};
    if (end_of_text >= 0)
        put_int(p, keys[used++], end_of_text);
    for (int known = 0; known < 2; known++)
        for (int i = hf_end_count(x); i-- > 0;) {
            const int64_t id = hf_end_at(x, i);
            if (id < 0 || id == end_of_text)
                continue;
            clt_tokenizer_token(x->tokenizer, (uint32_t)id, &name);
            if (ends_by_name(&name) != known)
                continue;
            if (used < n_keys)
                put_int(p, keys[used++], id);
            else if (!known)
                note_missed(x, &name, id);
        }
    return clt_str_check(&name);
}

static void put_roles(const hf_export *x, pairs *p)
{
    static const struct {
        const char *key;
        clt_token_role role;
    } ids[] = {{"tokenizer.ggml.bos_token_id", CLT_TOKEN_BEGIN},
               {"tokenizer.ggml.unknown_token_id", CLT_TOKEN_UNKNOWN},
               {"tokenizer.ggml.padding_token_id", CLT_TOKEN_PADDING}};
    size_t before = 0, after = 0;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (hf_id_of(x, ids[i].role) >= 0)
            put_int(p, ids[i].key, hf_id_of(x, ids[i].role));
    (void)clt_tokenizer_before(x->tokenizer, &before);
    (void)clt_tokenizer_after(x->tokenizer, &after);
    put_bool(p, "tokenizer.ggml.add_bos_token", before > 0);
    put_bool(p, "tokenizer.ggml.add_eos_token", after > 0);
}

static int kind_of(const hf_export *x, uint32_t id)
{
    bool added, special = clt_tokenizer_is_special(x->tokenizer, id, &added);
    if (clt_tokenizer_is_sentence(x->tokenizer) && id == clt_tokenizer_role(x->tokenizer, CLT_TOKEN_UNKNOWN))
        return TOKEN_UNKNOWN;
    if (clt_tokenizer_byte_of(x->tokenizer, id) >= 0)
        return TOKEN_BYTE;
    return special ? TOKEN_CONTROL : added ? TOKEN_ADDED : TOKEN_NORMAL;
}

/* Tokens in the order of their ids; rows of the model beyond the vocabulary get names that no text
 * contains. */
static clt_status put_tokens(const hf_export *x, pairs *p)
{
    const int64_t known = clt_tokenizer_vocab(x->tokenizer);
    CLT_SCOPED(clt_str) name = {0};
    char unused[32];
    begin_array(p, "tokenizer.ggml.tokens", VALUE_TEXT, (uint64_t)x->vocab);
    for (int64_t id = 0; id < x->vocab; id++) {
        if (id < known) {
            clt_tokenizer_token(x->tokenizer, (uint32_t)id, &name);
            clt_gguf_text(p->out, name.text ? name.text : "", name.length);
        } else {
            int length = snprintf(unused, sizeof unused, "[PAD%lld]", (long long)id);
            clt_gguf_text(p->out, unused, (size_t)length);
        }
    }
    begin_array(p, "tokenizer.ggml.token_type", VALUE_I32, (uint64_t)x->vocab);
    for (int64_t id = 0; id < x->vocab; id++)
        clt_gguf_number(p->out, (uint64_t)(id < known ? kind_of(x, (uint32_t)id) : TOKEN_UNUSED), 4);
    return clt_str_check(&name);
}

static clt_status put_merges(const hf_export *x, pairs *p)
{
    CLT_SCOPED(clt_str) name = {0};
    begin_array(p, "tokenizer.ggml.merges", VALUE_TEXT, clt_tokenizer_merges(x->tokenizer));
    for (uint32_t i = 0; i < clt_tokenizer_merges(x->tokenizer); i++) {
        clt_tokenizer_merge_text(x->tokenizer, i, &name);
        clt_gguf_text(p->out, name.text, name.length);
    }
    return clt_str_check(&name);
}

static clt_status put_chat(const hf_export *x, pairs *p)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(hf_print_chat(x, &text));
    if (text.length)
        put_text(p, "tokenizer.chat_template", text.text);
    return CLT_OK;
}

/* llama.cpp puts a space before every text and after every special token, or nowhere. If the tokenizer has
 * other rules, the choice makes the ids of conversations (or without a chat template, of texts that begin
 * with a letter) the same as in training. */
static void put_space(const hf_export *x, pairs *p)
{
    const clt_space_rule space = clt_tokenizer_space(x->tokenizer);
    const clt_chat_template *chat = clt_chat_template_find(x->saved->facts.chat);
    const char *user = chat ? chat->open[CLT_CHAT_USER] : "";
    const bool marked =
        chat && (chat->begin || clt_tokenizer_begins_special(x->tokenizer, user, strlen(user)));
    const bool puts = space.first && (space.later || !chat);
    put_bool(p, "tokenizer.ggml.add_space_prefix", puts);
    if (space.first && !puts)
        x->result->differs = marked ? "llama.cpp will put no space before a text, though the tokenizer does; "
                                      "conversations begin with a special token and get the same ids"
                                    : "llama.cpp will put no space before a text, though the tokenizer does, "
                                      "also at the beginning of a conversation";
    else if (puts && !space.later)
        x->result->differs =
            "llama.cpp will put a space before a text that begins with one and after special "
            "tokens, where the tokenizer puts none";
    else if (puts && !space.twice)
        x->result->differs = "llama.cpp will put a space before a text that begins with one, where the "
                             "tokenizer puts none";
}

static clt_status put_scores(const hf_export *x, pairs *p)
{
    const int64_t known = clt_tokenizer_vocab(x->tokenizer);
    CLT_FREED float *scores = NULL;
    CLT_SCOPED(clt_str) why = {0};
    CLT_TRY(clt_alloc(&scores, (size_t)known, sizeof *scores, "scores of tokens"));
    CLT_TRY(clt_tokenizer_scores(x->tokenizer, scores, &why));
    if (why.length) {
        CLT_SCOPED(clt_str) text = {0};
        clt_str_printf(&text, "llama.cpp cannot split texts as the run's tokenizer does: %s", why.text);
        CLT_TRY(clt_str_check(&text));
        return refuse(x, text.text);
    }
    begin_array(p, "tokenizer.ggml.scores", VALUE_F32, (uint64_t)x->vocab);
    for (int64_t id = 0; id < x->vocab; id++) {
        float score = id < known ? scores[id] : CLT_SCORE_UNUSED;
        uint32_t bits;
        memcpy(&bits, &score, sizeof bits);
        clt_gguf_number(p->out, bits, 4);
    }
    return CLT_OK;
}

static clt_status put_tokenizer(const hf_export *x, pairs *p)
{
    if (!x->tokenizer) {
        put_text(p, "tokenizer.ggml.model", "none");
        return CLT_OK;
    }
    const char *split = clt_tokenizer_split_name(x->tokenizer);
    const bool sentence = clt_tokenizer_is_sentence(x->tokenizer);
    if (!split && !sentence)
        return refuse(x,
                      "llama.cpp would not split texts as the run's tokenizer does: a GGUF file takes the "
                      "tokenizers of GPT-2, Llama 3 and Qwen2, which join bytes, and of Llama 2 and Mistral");
    /* "llama" is SentencePiece's BPE, "gpt2" is byte-level BPE */
    put_text(p, "tokenizer.ggml.model", sentence ? "llama" : "gpt2");
    put_text(p, "tokenizer.ggml.pre", sentence ? "default" : split);
    CLT_TRY(put_tokens(x, p));
    CLT_TRY(sentence ? put_scores(x, p) : put_merges(x, p));
    if (sentence)
        put_space(x, p);
    put_roles(x, p);
    CLT_TRY(put_ends(x, p));
    return put_chat(x, p);
}

clt_status clt_gguf_metadata(const hf_export *x, const char *architecture, clt_gguf_type type, clt_str *out,
                             uint64_t *count)
{
    pairs p = {.out = out, .architecture = architecture};
    put_model(x, type, &p);
    CLT_TRY(put_tokenizer(x, &p));
    *count = p.count;
    return clt_str_check(out);
}
