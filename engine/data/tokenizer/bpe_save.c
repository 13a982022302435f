/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a tokenizer as a tokenizer.json that other programs can read, and a tokenizer_config.json with the
 * roles of its special tokens. It does not read these files. */
#include <stdlib.h>
#include <string.h>

#include "engine/data/tokenizer/tokenizer_internal.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"

static void byte_level(clt_json_writer *w, bool prefix, bool regex)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "type", "ByteLevel");
    clt_jw_kbool(w, "add_prefix_space", prefix);
    clt_jw_kbool(w, "trim_offsets", true);
    clt_jw_kbool(w, "use_regex", regex);
    clt_jw_end_object(w);
}

/* Sets `out` to a token as files write it: in byte letters, or as plain text if it is literal. */
static void letters(const clt_tokenizer *t, const clt_token *token, clt_str *out)
{
    out->length = 0;
    if (t->rules.wordpiece.on || t->rules.sentence.on || token->literal)
        clt_str_append_n(out, token->bytes, token->size);
    else
        clt_letters_of_bytes(token->bytes, token->size, out);
}

void clt_tokenizer_token(const clt_tokenizer *t, uint32_t id, clt_str *out)
{
    out->length = 0;
    if (t->bytes)
        clt_letters_of_bytes((const char[]){(char)id}, 1, out);
    else
        letters(t, &t->tokens[id], out);
}

uint32_t clt_tokenizer_merges(const clt_tokenizer *t)
{
    return t->n_merges;
}

void clt_tokenizer_merge_text(const clt_tokenizer *t, uint32_t rank, clt_str *out)
{
    const clt_token *right = &t->tokens[t->merges[rank].right];
    letters(t, &t->tokens[t->merges[rank].left], out);
    clt_str_append(out, " "); /* a space separates the two tokens, since no token contains one */
    if (t->rules.sentence.on)
        clt_str_append_n(out, right->bytes, right->size);
    else
        clt_letters_of_bytes(right->bytes, right->size, out);
}

const char *clt_tokenizer_split_name(const clt_tokenizer *t)
{
    static const char *const names[] = {"gpt-2", "llama-bpe", "qwen2"}; /* indexed by clt_words */
    const clt_splitting *how = &t->rules.splitting;
    if (t->rules.sentence.on || t->rules.prefix_space || (t->rules.nfc && how->words != CLT_WORDS_QWEN2) ||
        (t->rules.ignore_merges && how->words != CLT_WORDS_LLAMA3))
        return NULL;
    if (how->digits)
        return how->words == CLT_WORDS_GPT2 && how->digits == CLT_DIGITS_SINGLE ? "smollm" : NULL;
    return names[how->words];
}

static void write_token(clt_json_writer *w, const clt_added_token *a)
{
    clt_jw_object(w);
    clt_jw_kint(w, "id", a->id);
    clt_jw_kstring(w, "content", a->name);
    clt_jw_kbool(w, "single_word", a->single_word);
    clt_jw_kbool(w, "lstrip", a->lstrip);
    clt_jw_kbool(w, "rstrip", a->rstrip);
    clt_jw_kbool(w, "normalized", a->normalized);
    clt_jw_kbool(w, "special", a->special);
    clt_jw_end_object(w);
}

static const clt_added_token *find_added(const clt_tokenizer *t, uint32_t id)
{
    for (uint32_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
}

bool clt_tokenizer_is_special(const clt_tokenizer *t, uint32_t id, bool *added)
{
    *added = !t->bytes && find_added(t, id) != NULL;
    return !t->bytes && t->tokens[id].special;
}

static void write_added(const clt_tokenizer *t, clt_json_writer *w, clt_str *name)
{
    clt_jw_karray(w, "added_tokens");
    for (uint32_t id = 0; id < t->vocab; id++) {
        const clt_added_token *known = find_added(t, id);
        if (!known && !t->tokens[id].special)
            continue;
        letters(t, &t->tokens[id], name);
        const clt_added_token plain = {.name = name->text, .id = id, .special = true};
        write_token(w, known ? known : &plain);
    }
    clt_jw_end_array(w);
}

/* --- rules --- */

static void write_metaspace(const clt_sentence *s, clt_json_writer *w)
{
    static const char *const schemes[] = {"never", "first", "always"}; /* indexed by clt_prepend */
    if (s->normal) {
        clt_jw_knull(w, "pre_tokenizer");
        return;
    }
    clt_jw_kobject(w, "pre_tokenizer");
    clt_jw_kstring(w, "type", "Metaspace");
    clt_jw_kstring(w, "replacement", CLT_SPACE_LETTER);
    clt_jw_kstring(w, "prepend_scheme", schemes[s->prepend]);
    clt_jw_kbool(w, "split", s->split);
    clt_jw_end_object(w);
}

static void write_replace(clt_json_writer *w, const char *from, const char *to)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "type", "Replace");
    clt_jw_kobject(w, "pattern");
    clt_jw_kstring(w, "String", from);
    clt_jw_end_object(w);
    clt_jw_kstring(w, "content", to);
    clt_jw_end_object(w);
}

static void write_prepend(const clt_sentence *s, clt_json_writer *w)
{
    clt_jw_kobject(w, "normalizer");
    clt_jw_kstring(w, "type", "Sequence");
    clt_jw_karray(w, "normalizers");
    if (s->prepend) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", "Prepend");
        clt_jw_kstring(w, "prepend", CLT_SPACE_LETTER);
        clt_jw_end_object(w);
    }
    write_replace(w, " ", CLT_SPACE_LETTER);
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}

static void write_sentence_decoder(const clt_sentence *s, clt_json_writer *w)
{
    static const char *const types[] = {"ByteFallback", "Fuse"};
    clt_jw_kobject(w, "decoder");
    clt_jw_kstring(w, "type", "Sequence");
    clt_jw_karray(w, "decoders");
    if (s->drop == CLT_DROP_SPACES) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", "Metaspace");
        clt_jw_kstring(w, "replacement", CLT_SPACE_LETTER);
        clt_jw_kstring(w, "prepend_scheme", "always");
        clt_jw_kbool(w, "split", s->split);
        clt_jw_end_object(w);
    } else {
        write_replace(w, CLT_SPACE_LETTER, " ");
    }
    for (int i = 0; i < 2; i++) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", types[i]);
        clt_jw_end_object(w);
    }
    if (s->drop == CLT_DROP_SPACE) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", "Strip");
        clt_jw_kstring(w, "content", " ");
        clt_jw_kint(w, "start", 1);
        clt_jw_kint(w, "stop", 0);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}

static void write_pre_tokenizer(const clt_tokenizer *t, clt_json_writer *w)
{
    const clt_splitting *how = &t->rules.splitting;
    if (t->rules.sentence.on) {
        write_metaspace(&t->rules.sentence, w);
        return;
    }
    bool split = how->words != CLT_WORDS_GPT2, several = split || how->digits;
    clt_jw_key(w, "pre_tokenizer");
    if (t->rules.wordpiece.on) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", "BertPreTokenizer");
        clt_jw_end_object(w);
        return;
    }
    if (several) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", "Sequence");
        clt_jw_karray(w, "pretokenizers");
    }
    if (how->digits) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", "Digits");
        clt_jw_kbool(w, "individual_digits", how->digits == CLT_DIGITS_SINGLE);
        clt_jw_end_object(w);
    }
    if (split) {
        clt_jw_object(w);
        clt_jw_kstring(w, "type", "Split");
        clt_jw_kobject(w, "pattern");
        clt_jw_kstring(w, "Regex", clt_words_expression(how->words));
        clt_jw_end_object(w);
        clt_jw_kstring(w, "behavior", "Isolated");
        clt_jw_kbool(w, "invert", false);
        clt_jw_end_object(w);
    }
    byte_level(w, t->rules.prefix_space, !split);
    if (several) {
        clt_jw_end_array(w);
        clt_jw_end_object(w);
    }
}

/* Writes {"SpecialToken": {"id": ..., "type_id": 0}}, or the same with "Sequence". */
static void template_piece(clt_json_writer *w, const char *kind, const char *id, int type)
{
    clt_jw_object(w);
    clt_jw_kobject(w, kind);
    clt_jw_kstring(w, "id", id);
    clt_jw_kint(w, "type_id", type);
    clt_jw_end_object(w);
    clt_jw_end_object(w);
}

static void template_around(const clt_tokenizer *t, clt_json_writer *w, const clt_around *around, int type,
                            clt_str *name)
{
    for (int i = 0; i < around->count; i++) {
        letters(t, &t->tokens[around->id[i]], name);
        template_piece(w, "SpecialToken", name->text, type);
    }
}

static void template_specials(const clt_tokenizer *t, clt_json_writer *w, clt_str *name)
{
    const clt_around *const both[] = {&t->rules.before, &t->rules.after};
    clt_jw_kobject(w, "special_tokens");
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < both[k]->count; i++) {
            uint32_t id = both[k]->id[i];
            bool known = false;
            for (int j = 0; j < k * both[0]->count; j++)
                known = known || both[0]->id[j] == id;
            for (int j = 0; j < i; j++)
                known = known || both[k]->id[j] == id;
            if (known)
                continue;
            letters(t, &t->tokens[id], name);
            clt_jw_kobject(w, name->text);
            clt_jw_kstring(w, "id", name->text);
            clt_jw_karray(w, "ids");
            clt_jw_int(w, id);
            clt_jw_end_array(w);
            clt_jw_karray(w, "tokens");
            clt_jw_string(w, name->text);
            clt_jw_end_array(w);
            clt_jw_end_object(w);
        }
    clt_jw_end_object(w);
}

static void write_post_processor(const clt_tokenizer *t, clt_json_writer *w, clt_str *name)
{
    static const char *const lists[] = {"single", "pair"};
    clt_jw_key(w, "post_processor");
    if (t->rules.before.count + t->rules.after.count == 0) {
        if (t->rules.wordpiece.on || t->rules.sentence.on)
            clt_jw_null(w);
        else
            byte_level(w, true, true);
        return;
    }
    clt_jw_object(w);
    clt_jw_kstring(w, "type", "TemplateProcessing");
    for (int list = 0; list < 2; list++) {
        clt_jw_karray(w, lists[list]);
        for (int type = 0; type <= list; type++) {
            if (type == 0 || !t->rules.wordpiece.on) /* BERT puts no token before the second text */
                template_around(t, w, &t->rules.before, type, name);
            template_piece(w, "Sequence", type ? "B" : "A", type);
            template_around(t, w, &t->rules.after, type, name);
        }
        clt_jw_end_array(w);
    }
    template_specials(t, w, name);
    clt_jw_end_object(w);
}

static void write_wordpiece(const clt_tokenizer *t, clt_json_writer *w, clt_str *name)
{
    clt_jw_kobject(w, "model");
    clt_jw_kstring(w, "type", "WordPiece");
    letters(t, &t->tokens[t->rules.wordpiece.unknown_id], name);
    clt_jw_kstring(w, "unk_token", name->text);
    clt_jw_kstring(w, "continuing_subword_prefix", CLT_PIECE_PREFIX);
    clt_jw_kint(w, "max_input_chars_per_word", t->rules.wordpiece.most);
    clt_jw_kobject(w, "vocab");
    for (uint32_t id = 0; id < t->vocab; id++)
        if (!t->tokens[id].literal) {
            letters(t, &t->tokens[id], name);
            clt_jw_kint(w, name->text, id);
        }
    clt_jw_end_object(w);
    clt_jw_end_object(w);
}

static void write_normalizer(const clt_tokenizer *t, clt_json_writer *w)
{
    const clt_wordpiece *how = &t->rules.wordpiece;
    if (t->rules.sentence.normal) {
        write_prepend(&t->rules.sentence, w);
        return;
    }
    if (!how->on && !t->rules.nfc) {
        clt_jw_knull(w, "normalizer");
        return;
    }
    clt_jw_kobject(w, "normalizer");
    clt_jw_kstring(w, "type", how->on ? "BertNormalizer" : "NFC");
    if (how->on) {
        clt_jw_kbool(w, "clean_text", how->clean);
        clt_jw_kbool(w, "handle_chinese_chars", how->chinese);
        clt_jw_kbool(w, "strip_accents", how->strip);
        clt_jw_kbool(w, "lowercase", how->lower);
    }
    clt_jw_end_object(w);
}

static void write_decoder(const clt_tokenizer *t, clt_json_writer *w)
{
    if (t->rules.sentence.on) {
        write_sentence_decoder(&t->rules.sentence, w);
        return;
    }
    clt_jw_key(w, "decoder");
    if (!t->rules.wordpiece.on) {
        byte_level(w, true, true);
        return;
    }
    clt_jw_object(w);
    clt_jw_kstring(w, "type", "WordPiece");
    clt_jw_kstring(w, "prefix", CLT_PIECE_PREFIX);
    clt_jw_kbool(w, "cleanup", true);
    clt_jw_end_object(w);
}

static void write_model(const clt_tokenizer *t, clt_json_writer *w, clt_str *name)
{
    static const char *const absent[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const clt_sentence *s = &t->rules.sentence;
    clt_jw_kobject(w, "model");
    clt_jw_kstring(w, "type", "BPE");
    for (int i = 0; i < 3; i++)
        clt_jw_knull(w, absent[i]);
    if (s->on && s->unknown_id != CLT_NO_TOKEN) {
        letters(t, &t->tokens[s->unknown_id], name);
        clt_jw_kstring(w, "unk_token", name->text);
    } else {
        clt_jw_knull(w, "unk_token");
    }
    clt_jw_kbool(w, "fuse_unk", s->fuse);
    clt_jw_kbool(w, "byte_fallback", s->fallback);
    clt_jw_kbool(w, "ignore_merges", t->rules.ignore_merges);
    clt_jw_kobject(w, "vocab");
    for (uint32_t id = 0; id < t->vocab; id++)
        if (!t->tokens[id].literal) {
            letters(t, &t->tokens[id], name);
            clt_jw_kint(w, name->text, id);
        }
    clt_jw_end_object(w);
    clt_jw_karray(w, "merges");
    for (uint32_t i = 0; i < t->n_merges; i++) {
        clt_tokenizer_merge_text(t, i, name);
        clt_jw_string(w, name->text);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}

clt_status clt_tokenizer_print(const clt_tokenizer *t, clt_str *text)
{
    CLT_SCOPED(clt_str) name = {0};
    clt_json_writer w = clt_json_writer_make(text, 1);
    clt_str_append(&name, "");
    clt_jw_object(&w);
    clt_jw_kstring(&w, "version", "1.0");
    clt_jw_knull(&w, "truncation");
    clt_jw_knull(&w, "padding");
    write_added(t, &w, &name);
    write_normalizer(t, &w);
    write_pre_tokenizer(t, &w);
    write_post_processor(t, &w, &name);
    write_decoder(t, &w);
    if (t->rules.wordpiece.on)
        write_wordpiece(t, &w, &name);
    else
        write_model(t, &w, &name);
    clt_jw_end_object(&w);
    clt_str_append(text, "\n");
    CLT_TRY(clt_str_check(&name));
    return clt_str_check(text);
}

clt_status clt_tokenizer_save(const clt_tokenizer *t, const char *path)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_status status = clt_tokenizer_print(t, &text);
    if (status == CLT_OK)
        status = clt_file_write(path, text.text, text.length);
    return clt_fail_prefix(status, "saving the tokenizer");
}

clt_status clt_tokenizer_print_config(const clt_tokenizer *t, int64_t context, clt_str *text)
{
    static const struct {
        const char *key;
        clt_token_role role;
    } roles[] = {{"bos_token", CLT_TOKEN_BEGIN},   {"eos_token", CLT_TOKEN_END_OF_TEXT},
                 {"unk_token", CLT_TOKEN_UNKNOWN}, {"pad_token", CLT_TOKEN_PADDING},
                 {"cls_token", CLT_TOKEN_CLASS},   {"sep_token", CLT_TOKEN_SEPARATOR},
                 {"mask_token", CLT_TOKEN_MASK}};
    CLT_SCOPED(clt_str) name = {0};
    clt_json_writer w = clt_json_writer_make(text, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "tokenizer_class", "PreTrainedTokenizerFast");
    if (context > 0)
        clt_jw_kint(&w, "model_max_length", context);
    clt_jw_kbool(&w, "clean_up_tokenization_spaces", false);
    if (t->rules.wordpiece.on) { /* without these names transformers passes a BERT no segments of pairs */
        clt_jw_karray(&w, "model_input_names");
        clt_jw_string(&w, "input_ids");
        clt_jw_string(&w, "token_type_ids");
        clt_jw_string(&w, "attention_mask");
        clt_jw_end_array(&w);
    }
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        int64_t id = t->role[roles[i].role];
        if (id < 0)
            continue;
        letters(t, &t->tokens[id], &name);
        clt_jw_kstring(&w, roles[i].key, name.text);
    }
    clt_jw_end_object(&w);
    clt_str_append(text, "\n");
    CLT_TRY(clt_str_check(&name));
    return clt_str_check(text);
}

bool clt_tokenizer_has_roles(const clt_tokenizer *t)
{
    int64_t end = t->role[CLT_TOKEN_END_OF_TEXT];
    for (int role = 0; role < CLT_TOKEN_ROLES; role++)
        if (role != CLT_TOKEN_END_OF_TEXT && t->role[role] >= 0)
            return true;
    return end >= 0 && (t->tokens[end].size != strlen(CLT_END_OF_TEXT) ||
                        memcmp(t->tokens[end].bytes, CLT_END_OF_TEXT, strlen(CLT_END_OF_TEXT)) != 0);
}

clt_status clt_tokenizer_save_folder(const clt_tokenizer *t, int64_t context, const char *folder)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_FREED char *path = NULL;
    CLT_FREED char *config = NULL;
    CLT_TRY(clt_path_join(folder, "tokenizer.json", &path));
    CLT_TRY(clt_tokenizer_save(t, path));
    if (context == 0 && !clt_tokenizer_has_roles(t))
        return CLT_OK;
    CLT_TRY(clt_path_join(folder, "tokenizer_config.json", &config));
    CLT_TRY(clt_tokenizer_print_config(t, context, &text));
    return clt_file_write(config, text.text, text.length);
}
