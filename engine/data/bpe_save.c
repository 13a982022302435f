/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer as a tokenizer.json that other programs read as well. It knows nothing of reading it. */
#include "engine/base/fileio.h"
#include "engine/base/json.h"
#include "engine/data/tokenizer_internal.h"

static void byte_level(clt_json_writer *w, const char *key, bool prefix)
{
    clt_jw_key(w, key);
    clt_jw_object(w);
    clt_jw_kstring(w, "type", "ByteLevel");
    clt_jw_kbool(w, "add_prefix_space", prefix);
    clt_jw_kbool(w, "trim_offsets", true);
    clt_jw_kbool(w, "use_regex", true);
    clt_jw_end_object(w);
}

/* Appends a token as files write it: in byte letters, or an added token as plain text. */
static void letters(const clt_token *token, clt_str *out)
{
    out->length = 0;
    if (token->literal)
        clt_str_append_n(out, token->bytes, token->size);
    else
        clt_letters_of_bytes(token->bytes, token->size, out);
}

static void write_added(const clt_tokenizer *t, clt_json_writer *w, clt_str *name)
{
    clt_jw_key(w, "added_tokens");
    clt_jw_array(w);
    for (uint32_t id = 0; id < t->vocab; id++) {
        if (!t->tokens[id].literal && (int64_t)id != t->end_of_text)
            continue;
        letters(&t->tokens[id], name);
        clt_jw_object(w);
        clt_jw_kint(w, "id", id);
        clt_jw_kstring(w, "content", name->text);
        clt_jw_kbool(w, "single_word", false);
        clt_jw_kbool(w, "lstrip", false);
        clt_jw_kbool(w, "rstrip", false);
        clt_jw_kbool(w, "normalized", false);
        clt_jw_kbool(w, "special", true);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
}

static void write_model(const clt_tokenizer *t, clt_json_writer *w, clt_str *name)
{
    static const char *const absent[] = {"dropout", "unk_token", "continuing_subword_prefix",
                                         "end_of_word_suffix"};
    clt_jw_key(w, "model");
    clt_jw_object(w);
    clt_jw_kstring(w, "type", "BPE");
    for (int i = 0; i < 4; i++) {
        clt_jw_key(w, absent[i]);
        clt_jw_null(w);
    }
    clt_jw_kbool(w, "fuse_unk", false);
    clt_jw_kbool(w, "byte_fallback", false);
    clt_jw_kbool(w, "ignore_merges", t->ignore_merges);
    clt_jw_key(w, "vocab");
    clt_jw_object(w);
    for (uint32_t id = 0; id < t->vocab; id++)
        if (!t->tokens[id].literal) {
            letters(&t->tokens[id], name);
            clt_jw_kint(w, name->text, id);
        }
    clt_jw_end_object(w);
    clt_jw_key(w, "merges");
    clt_jw_array(w);
    for (uint32_t i = 0; i < t->n_merges; i++) {
        letters(&t->tokens[t->merges[i].left], name);
        clt_str_append(name, " "); /* separates the two tokens: a space is not a byte letter */
        clt_letters_of_bytes(t->tokens[t->merges[i].right].bytes, t->tokens[t->merges[i].right].size, name);
        clt_jw_string(w, name->text);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}

clt_status clt_tokenizer_print(const clt_tokenizer *t, clt_str *text)
{
    clt_str name = {0};
    clt_json_writer w = clt_json_writer_make(text, 1);
    clt_str_append(&name, "");
    clt_jw_object(&w);
    clt_jw_kstring(&w, "version", "1.0");
    clt_jw_key(&w, "truncation");
    clt_jw_null(&w);
    clt_jw_key(&w, "padding");
    clt_jw_null(&w);
    write_added(t, &w, &name);
    clt_jw_key(&w, "normalizer");
    clt_jw_null(&w);
    byte_level(&w, "pre_tokenizer", false);
    byte_level(&w, "post_processor", true);
    byte_level(&w, "decoder", true);
    write_model(t, &w, &name);
    clt_jw_end_object(&w);
    clt_str_append(text, "\n");
    clt_status status = clt_str_check(&name);
    clt_str_free(&name);
    return status == CLT_OK ? clt_str_check(text) : status;
}

clt_status clt_tokenizer_save(const clt_tokenizer *t, const char *path)
{
    clt_str text = {0};
    clt_status status = clt_tokenizer_print(t, &text);
    if (status == CLT_OK)
        status = clt_file_write(path, text.text, text.length);
    clt_str_free(&text);
    return clt_fail_prefix(status, "saving the tokenizer");
}
