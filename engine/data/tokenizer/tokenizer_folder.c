/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the files that save_pretrained of transformers writes beside a vocabulary: tokenizer_config.json,
 * added_tokens.json and special_tokens_map.json. They add tokens, give special tokens their roles, and
 * change how a text is encoded; they are read as the transformers library reads them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/data/texts/text_paths.h"
#include "engine/data/tokenizer/tokenizer_loading.h"
#include "engine/files/file_kind.h"
#include "engine/files/fileio.h"

#define MAX_ADDED 20000

/* --- files --- */

static clt_status open_sides(clt_tokenizer_loading *l)
{
    static const char *const names[CLT_SIDES] = {"tokenizer_config.json", "added_tokens.json",
                                                 "special_tokens_map.json"};
    for (int i = 0; i < CLT_SIDES; i++) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_path_beside(l->path, names[i], &path));
        if (!clt_file_exists(path) || clt_is_directory(path))
            continue;
        CLT_TRY(clt_refuse_pointer_file(path, "the tokenizer itself", CLT_EDATA));
        CLT_TRY(clt_fail_prefix(clt_json_parse_file(path, CLT_EDATA, &l->side[i]),
                                "reading the tokenizer '%s'", path));
        if (clt_json_typeof(clt_json_root(l->side[i])) != CLT_JSON_OBJECT)
            CLT_FAIL(CLT_EDATA, "reading '%s': it is not a JSON object", path);
    }
    return CLT_OK;
}

static const clt_json *side_value(const clt_tokenizer_loading *l, int side, const char *key)
{
    return clt_json_given(clt_json_root(l->side[side]), key);
}

/* --- added tokens --- */

static clt_added_entry *find_entry(const clt_tokenizer_loading *l, const char *content)
{
    for (size_t i = 0; i < l->n_added; i++)
        if (strcmp(l->added[i].content, content) == 0)
            return &l->added[i];
    return NULL;
}

/* Reads {"content": ..., "lstrip": ...}, or the content alone. An object without "special" is a special
 * token. */
static bool read_entry(const clt_json *value, bool special, clt_added_entry *out)
{
    const clt_json *content = value;
    *out = (clt_added_entry){.special = special, .id = -1};
    if (clt_json_typeof(value) == CLT_JSON_OBJECT) {
        content = clt_json_get(value, "content");
        out->special = special || clt_json_flag(value, "special", true);
        out->normalized = clt_json_flag(value, "normalized", !out->special);
        out->single_word = clt_json_flag(value, "single_word", false);
        out->lstrip = clt_json_flag(value, "lstrip", false);
        out->rstrip = clt_json_flag(value, "rstrip", false);
    }
    if (clt_json_typeof(content) != CLT_JSON_STRING || !*clt_json_string(content))
        return false;
    out->content = clt_json_string(content);
    return true;
}

/* Adds a token. If another file or the vocabulary already has the token, both must agree. */
static clt_status add_entry(clt_tokenizer_loading *l, const clt_added_entry *entry)
{
    clt_added_entry *known = find_entry(l, entry->content);
    const clt_json *in_vocab = clt_json_get(l->vocab, entry->content);
    int64_t id;
    if (in_vocab && (!clt_json_int(in_vocab, &id) || id != entry->id))
        CLT_FAIL(CLT_EDATA, "added token \"%.60s\" has another id in the vocabulary", entry->content);
    if (known && known->id != entry->id)
        CLT_FAIL(CLT_EDATA, "added token \"%.60s\" has the id %lld here and %lld in another file",
                 entry->content, (long long)entry->id, (long long)known->id);
    if (known && (known->lstrip != entry->lstrip || known->rstrip != entry->rstrip ||
                  known->single_word != entry->single_word || known->normalized != entry->normalized))
        CLT_FAIL(CLT_EDATA,
                 "added token \"%.60s\" has other settings (lstrip, rstrip, single_word, normalized) in "
                 "another file; make them alike",
                 entry->content);
    if (known) {
        known->special = known->special || entry->special;
        return CLT_OK;
    }
    if (l->n_added == MAX_ADDED)
        CLT_FAIL(CLT_EDATA, "more than %d added tokens are not supported", MAX_ADDED);
    CLT_TRY(clt_grow(&l->added, &l->added_capacity, l->n_added + 1, sizeof *l->added, "added tokens"));
    l->added[l->n_added++] = *entry;
    return CLT_OK;
}

/* Reads an entry of added_tokens of a tokenizer.json. */
static clt_status read_listed(clt_tokenizer_loading *l, const clt_json *value)
{
    clt_added_entry entry;
    const clt_json *id = clt_json_get(value, "id");
    if (!id || !read_entry(value, false, &entry))
        CLT_FAIL(CLT_EDATA, "an entry of added_tokens is not an object with a \"content\" and an \"id\"");
    if (!clt_json_int(id, &entry.id))
        CLT_FAIL(CLT_EDATA, "token \"%.60s\": its id is not an integer", entry.content);
    return add_entry(l, &entry);
}

/* Reads an entry of added_tokens_decoder of tokenizer_config.json: {"260": {"content": ...}}. */
static clt_status read_decoded(clt_tokenizer_loading *l, const clt_json *value)
{
    clt_added_entry entry;
    const char *key = clt_json_key(value);
    char *end;
    if (!read_entry(value, false, &entry))
        CLT_FAIL(CLT_EDATA, "added_tokens_decoder: no \"content\"");
    entry.id = strtoll(key, &end, 10);
    if (key[0] < '0' || key[0] > '9' || *end || entry.id > INT32_MAX)
        CLT_FAIL(CLT_EDATA, "added_tokens_decoder: \"%.60s\" is not an id", key);
    return add_entry(l, &entry);
}

/* Reads an entry of added_tokens.json: {"<speaker>": 260}. If another file has the token, its settings there
 * are kept. */
static clt_status read_named(clt_tokenizer_loading *l, const clt_json *value)
{
    const char *content = clt_json_key(value);
    clt_added_entry entry = {.content = content, .normalized = true};
    const clt_added_entry *known = find_entry(l, content);
    int64_t id;
    if (!*content || !clt_json_int(value, &id))
        CLT_FAIL(CLT_EDATA, "token \"%.60s\": its id is not an integer", content);
    if (known)
        entry = *known;
    entry.id = id;
    return add_entry(l, &entry);
}

/* Calls `read` for each entry of `list`, an object or array of `doc`. `list` may be NULL. */
static clt_status read_each(clt_tokenizer_loading *l, const clt_json_doc *doc, const clt_json *list,
                            clt_status (*read)(clt_tokenizer_loading *l, const clt_json *value))
{
    for (const clt_json *value = clt_json_first(list); value; value = clt_json_next(value))
        CLT_TRY(clt_tokenizer_at(doc, value, read(l, value)));
    return CLT_OK;
}

/* --- roles --- */

/* Marks a token as special. A token without an id gets the next free one, as in transformers. */
static clt_status add_special(clt_tokenizer_loading *l, int side, const clt_json *value, const char **content)
{
    clt_added_entry entry;
    if (!read_entry(value, true, &entry))
        return clt_tokenizer_at(l->side[side], value,
                                clt_fail(CLT_EDATA, __FILE__, __LINE__,
                                         "\"%.60s\" is neither the text of a token nor an object with a "
                                         "\"content\"",
                                         clt_json_key(value) ? clt_json_key(value) : "a special token"));
    if (content)
        *content = entry.content;
    clt_added_entry *known = find_entry(l, entry.content);
    const clt_json *in_vocab = clt_json_get(l->vocab, entry.content);
    if (known) {
        known->special = true;
        return CLT_OK;
    }
    if (!clt_json_int(in_vocab, &entry.id)) {
        entry.id = (int64_t)clt_json_count(l->vocab);
        for (size_t i = 0; i < l->n_added; i++)
            entry.id += !clt_json_get(l->vocab, l->added[i].content);
    }
    return add_entry(l, &entry);
}

static clt_status read_roles(clt_tokenizer_loading *l)
{
    static const struct {
        const char *key;
        int role;
    } keys[] = {{"bos_token", CLT_TOKEN_BEGIN},   {"eos_token", CLT_TOKEN_END_OF_TEXT},
                {"unk_token", CLT_TOKEN_UNKNOWN}, {"sep_token", CLT_TOKEN_SEPARATOR},
                {"pad_token", CLT_TOKEN_PADDING}, {"cls_token", CLT_TOKEN_CLASS},
                {"mask_token", CLT_TOKEN_MASK}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (int side = CLT_SIDE_CONFIG; side < CLT_SIDES; side += CLT_SIDE_MAP - CLT_SIDE_CONFIG) {
            const clt_json *value = side_value(l, side, keys[i].key);
            if (!value)
                continue;
            CLT_TRY(add_special(l, side, value, &l->role[keys[i].role]));
            break; /* special_tokens_map.json is used only for keys that tokenizer_config.json lacks */
        }
    return CLT_OK;
}

static clt_status read_more_specials(clt_tokenizer_loading *l)
{
    static const char *const keys[] = {"extra_special_tokens", "additional_special_tokens"};
    for (int side = CLT_SIDE_CONFIG; side < CLT_SIDES; side += CLT_SIDE_MAP - CLT_SIDE_CONFIG)
        for (int i = 0; i < 2; i++) {
            const clt_json *list = side_value(l, side, keys[i]);
            if (clt_json_typeof(list) != CLT_JSON_ARRAY && clt_json_typeof(list) != CLT_JSON_OBJECT)
                continue;
            for (const clt_json *one = clt_json_first(list); one; one = clt_json_next(one))
                CLT_TRY(add_special(l, side, one, NULL));
            return CLT_OK; /* transformers reads only the first list that exists */
        }
    return CLT_OK;
}

/* --- rules --- */

static bool is_class(const char *name, const char *wanted)
{
    size_t size = strlen(wanted);
    return strncmp(name, wanted, size) == 0 && (!name[size] || strcmp(name + size, "Fast") == 0);
}

/* Refuses a flag of tokenizer_config.json that contradicts the rules: the class BertTokenizer of
 * transformers follows the flag, whatever tokenizer.json says. */
static clt_status check_flag(const clt_tokenizer_loading *l, const char *key, bool ours)
{
    const clt_json *value = side_value(l, CLT_SIDE_CONFIG, key);
    if (!value || (clt_json_typeof(value) == CLT_JSON_BOOL && clt_json_bool(value) == ours))
        return CLT_OK;
    char what[80];
    (void)snprintf(what, sizeof what, "a %s that differs from the tokenizer.json beside it", key);
    return clt_tokenizer_refuse(l->side[CLT_SIDE_CONFIG], value, what);
}

static clt_status check_bert(const clt_tokenizer_loading *l)
{
    const clt_wordpiece *w = &l->rules.wordpiece;
    if (!w->on)
        return clt_tokenizer_refuse(l->side[CLT_SIDE_CONFIG],
                                    side_value(l, CLT_SIDE_CONFIG, "tokenizer_class"),
                                    "BertTokenizer without a WordPiece");
    CLT_TRY(check_flag(l, "do_lower_case", w->lower));
    CLT_TRY(check_flag(l, "strip_accents", w->strip));
    return check_flag(l, "tokenize_chinese_chars", w->chinese);
}

/* True if the rules of the tokenizer.json differ from the rules of its class (GPT-2's or Qwen 2's), as in
 * the published SmolLM2. cltrain follows the file, because the model was trained with its ids. So do the
 * tokenizers library and transformers 4, but not the classes of transformers 5. */
static bool file_differs(const clt_tokenizer_loading *l, const char *name, const clt_splitting *own, bool nfc)
{
    const clt_tokenizer_rules *r = &l->rules;
    bool differs = r->wordpiece.on || r->sentence.on || r->splitting.words != own->words ||
                   r->splitting.digits || r->nfc != nfc || r->ignore_merges;
    if (differs)
        CLT_WARN_ONCE("'%.600s': its rules differ from %.60s's, which tokenizer_config.json names; the rules "
                      "of the file are used, as in transformers 4 (transformers 5 gives other ids)",
                      l->path, name);
    return differs;
}

/* Applies tokenizer_class. `whole`: there is a tokenizer.json. */
static clt_status apply_class(clt_tokenizer_loading *l, bool whole)
{
    const clt_json *value = side_value(l, CLT_SIDE_CONFIG, "tokenizer_class");
    const char *name = clt_json_string(value);
    bool gpt2 = is_class(name, "GPT2Tokenizer"), qwen2 = is_class(name, "Qwen2Tokenizer");
    bool general = !*name || is_class(name, "PreTrainedTokenizer") || strcmp(name, "TokenizersBackend") == 0;
    clt_splitting own = {qwen2 ? CLT_WORDS_QWEN2 : CLT_WORDS_GPT2, CLT_DIGITS_NO_RULE};
    clt_tokenizer_rules *r = &l->rules;
    if (!whole && !gpt2 && !qwen2 && !general)
        return clt_tokenizer_refuse(l->side[CLT_SIDE_CONFIG], value,
                                    "a tokenizer_class other than GPT2Tokenizer and Qwen2Tokenizer");
    if (!whole) {
        r->splitting = own;
        r->nfc = qwen2;
    }
    if (is_class(name, "BertTokenizer") || l->rules.wordpiece.on)
        CLT_TRY(check_bert(l));
    if ((gpt2 || qwen2) && whole && file_differs(l, name, &own, qwen2))
        return CLT_OK;
    if (gpt2 || qwen2 || !whole) {
        const clt_json *prefix = side_value(l, CLT_SIDE_CONFIG, "add_prefix_space");
        r->prefix_space = clt_json_bool(prefix);
        if (r->prefix_space && qwen2)
            return clt_tokenizer_refuse(l->side[CLT_SIDE_CONFIG], prefix,
                                        "add_prefix_space with Qwen2Tokenizer");
    }
    return CLT_OK;
}

/* The id of a token, which may be an added one; -1: there is no such token. */
static int64_t id_of(const clt_tokenizer_loading *l, const char *content)
{
    const clt_added_entry *entry = content ? find_entry(l, content) : NULL;
    const clt_json *in_vocab = content ? clt_json_get(l->vocab, content) : NULL;
    int64_t id = -1;
    return entry ? entry->id : clt_json_int(in_vocab, &id) ? id : -1;
}

/* Applies add_bos_token and add_eos_token. (A tokenizer.json has a post_processor for this instead.) */
static clt_status add_ends(clt_tokenizer_loading *l)
{
    static const char *const keys[] = {"add_bos_token", "add_eos_token"};
    clt_around *const around[] = {&l->rules.before, &l->rules.after};
    static const int roles[] = {CLT_TOKEN_BEGIN, CLT_TOKEN_END_OF_TEXT};
    for (int i = 0; i < 2; i++) {
        const clt_json *value = side_value(l, CLT_SIDE_CONFIG, keys[i]);
        int64_t id = id_of(l, l->role[roles[i]] ? l->role[roles[i]] : CLT_END_OF_TEXT);
        if (!clt_json_bool(value))
            continue;
        if (id < 0)
            return clt_tokenizer_refuse(l->side[CLT_SIDE_CONFIG], value,
                                        "a token at the ends of a text that no file names");
        around[i]->id[around[i]->count++] = (uint32_t)id;
    }
    return CLT_OK;
}

clt_status clt_tokenizer_read_sides(clt_tokenizer_loading *l, const clt_json *list, bool whole)
{
    CLT_TRY(open_sides(l));
    const clt_json_doc *config = l->side[CLT_SIDE_CONFIG], *added = l->side[CLT_SIDE_ADDED];
    const clt_json *decoder = clt_json_member(clt_json_root(config), "added_tokens_decoder", CLT_JSON_OBJECT);
    CLT_TRY(read_each(l, l->doc, list, read_listed));
    CLT_TRY(read_each(l, config, decoder, read_decoded));
    CLT_TRY(read_each(l, added, clt_json_root(added), read_named));
    CLT_TRY(read_roles(l));
    CLT_TRY(read_more_specials(l));
    CLT_TRY(apply_class(l, whole));
    return whole ? CLT_OK : add_ends(l);
}
