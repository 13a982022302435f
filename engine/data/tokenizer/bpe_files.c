/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads published vocabularies: vocab.json or encoder.json with merges.txt or vocab.bpe, and
 * tokenizer.json. The files may come from anywhere, so everything is checked. A feature that is not
 * supported is refused if it would change ids. It knows nothing of encoding. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/texts/text_paths.h"
#include "engine/data/tokenizer/tokenizer_loading.h"
#include "engine/files/file_kind.h"
#include "engine/files/fileio.h"

#define MERGES_MAX_BYTES ((uint64_t)64 << 20)
/* Limit of tokens that are the result of no merge. Normally these are a few special tokens; if there are
 * more, merges are missing. */
#define MAX_UNMADE 256

typedef clt_tokenizer_loading loading;

/* --- tokens --- */

static clt_status put_token(loading *l, const char *name, int64_t id, bool added)
{
    size_t size = strlen(name), count = 0;
    CLT_TRY(clt_grow(&l->left, &l->left_capacity, size + 1, 1, "a token"));
    /* Added tokens are plain text, and so are entries with characters that are not byte letters. */
    bool pieces = l->rules.wordpiece.on || l->rules.sentence.on;
    bool literal = added || (!pieces && !clt_bytes_of_letters(name, size, l->left, &count));
    return clt_fail_prefix(clt_tokenizer_put(l->t, id, literal || pieces ? name : l->left,
                                             literal || pieces ? size : count, literal),
                           "token \"%.60s\"", name);
}

static clt_status put_vocabulary(loading *l)
{
    for (const clt_json *entry = clt_json_first(l->vocab); entry; entry = clt_json_next(entry)) {
        int64_t id;
        clt_status status = clt_json_int(entry, &id)
                                ? put_token(l, clt_json_key(entry), id, false)
                                : clt_fail(CLT_EDATA, __FILE__, __LINE__,
                                           "token \"%.60s\": its id is not an integer", clt_json_key(entry));
        CLT_TRY(clt_tokenizer_at(l->doc, entry, status));
    }
    return CLT_OK;
}

/* Adds to the vocabulary the added tokens that it lacks, and prepares the search for all added tokens. */
static clt_status put_added(loading *l)
{
    clt_tokenizer *t = l->t;
    t->added = clt_arena_alloc(t->arena, (l->n_added + 1) * sizeof *t->added);
    if (!t->added)
        return CLT_ENOMEM;
    for (size_t i = 0; i < l->n_added; i++) {
        const clt_added_entry *e = &l->added[i];
        if (!clt_json_get(l->vocab, e->content))
            CLT_TRY(clt_fail_prefix(put_token(l, e->content, e->id, true), "reading '%s'", l->path));
        const char *content = clt_arena_strdup(t->arena, e->content);
        if (!content)
            return CLT_ENOMEM;
        t->tokens[e->id].special = e->special;
        t->added[t->n_added++] = (clt_added_token){.name = content,
                                                   .content = content,
                                                   .size = strlen(content),
                                                   .id = (uint32_t)e->id,
                                                   .special = e->special,
                                                   .normalized = e->normalized,
                                                   .single_word = e->single_word,
                                                   .lstrip = e->lstrip,
                                                   .rstrip = e->rstrip};
    }
    return clt_added_ready(t);
}

/* Sets the ids of roles. (clt_tokenizer_put sets the end of text by its name, even if no file has roles.) */
static void put_roles(loading *l)
{
    for (int role = 0; role < CLT_TOKEN_ROLES; role++)
        for (size_t i = 0; l->role[role] && i < l->n_added; i++)
            if (strcmp(l->added[i].content, l->role[role]) == 0)
                l->t->role[role] = l->added[i].id;
}

/* Sets the ids of a WordPiece's unknown token and of its tokens around texts. If no file gives them roles,
 * they are found by BERT's names. */
static clt_status put_wordpiece(loading *l)
{
    static const struct {
        const char *name;
        clt_token_role role;
    } names[] = {{"[CLS]", CLT_TOKEN_CLASS},
                 {"[SEP]", CLT_TOKEN_SEPARATOR},
                 {"[MASK]", CLT_TOKEN_MASK},
                 {"[PAD]", CLT_TOKEN_PADDING}};
    clt_tokenizer *t = l->t;
    int64_t id;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const clt_json *entry = clt_json_get(l->vocab, names[i].name);
        if (t->role[names[i].role] < 0 && clt_json_int(entry, &id))
            t->role[names[i].role] = id;
    }
    if (!clt_json_int_within(clt_json_get(l->vocab, l->unknown), 0, (int64_t)t->vocab - 1, &id))
        CLT_FAIL(CLT_EDATA, "reading '%s': the vocabulary lacks '%.60s', which unknown words become", l->path,
                 l->unknown);
    t->role[CLT_TOKEN_UNKNOWN] = id;
    t->rules.wordpiece.unknown_id = (uint32_t)id;
    return CLT_OK;
}

static clt_status check_around(const loading *l, const clt_around *around)
{
    for (int i = 0; i < around->count; i++)
        if (around->id[i] >= l->t->vocab)
            CLT_FAIL(CLT_EDATA, "reading '%s': its post_processor adds the id %u, and ids are 0 to %u",
                     l->path, around->id[i], l->t->vocab - 1);
    return CLT_OK;
}

static clt_status put_tokens(loading *l, uint32_t max_merges)
{
    uint64_t total = clt_json_count(l->vocab);
    for (size_t i = 0; i < l->n_added; i++)
        total += !clt_json_get(l->vocab, l->added[i].content);
    if (total > CLT_TOKENIZER_MAX_VOCAB)
        CLT_FAIL(CLT_EDATA, "reading '%s': it has %llu tokens; at most %u are possible", l->path,
                 (unsigned long long)total, CLT_TOKENIZER_MAX_VOCAB);
    CLT_TRY(
        clt_fail_prefix(clt_tokenizer_begin((uint32_t)total, max_merges, &l->t), "reading '%s'", l->path));
    l->t->rules = l->rules;
    CLT_TRY(put_vocabulary(l));
    CLT_TRY(put_added(l));
    put_roles(l);
    if (l->rules.wordpiece.on)
        CLT_TRY(put_wordpiece(l));
    CLT_TRY(check_around(l, &l->rules.before));
    CLT_TRY(check_around(l, &l->rules.after));
    return clt_fail_prefix(clt_tokenizer_ready(l->t), "reading '%s'", l->path);
}

/* --- merges --- */

static clt_status side(const loading *l, const char *letters, size_t size, char **buffer, size_t *capacity,
                       uint32_t *id)
{
    size_t count = 0;
    if (l->rules.sentence.on) {
        *id = clt_tokenizer_find(l->t, letters, size);
    } else {
        CLT_TRY(clt_grow(buffer, capacity, size + 1, 1, "one side of a merge"));
        *id = CLT_NO_TOKEN;
        if (clt_bytes_of_letters(letters, size, *buffer, &count))
            *id = clt_tokenizer_find(l->t, *buffer, count);
    }
    if (*id == CLT_NO_TOKEN)
        CLT_FAIL(CLT_EDATA, "the vocabulary has no token '%.*s'; do vocabulary and merges belong together?",
                 (int)(size < 60 ? size : 60), letters);
    return CLT_OK;
}

static clt_status find_and_merge(loading *l, const char *left, size_t left_size, const char *right,
                                 size_t right_size)
{
    uint32_t a, b;
    CLT_TRY(side(l, left, left_size, &l->left, &l->left_capacity, &a));
    CLT_TRY(side(l, right, right_size, &l->right, &l->right_capacity, &b));
    return clt_tokenizer_merge(l->t, a, b);
}

static clt_status add_merge(loading *l, const char *left, size_t left_size, const char *right,
                            size_t right_size)
{
    return clt_fail_prefix(find_and_merge(l, left, left_size, right, right_size),
                           "merge %u, '%.*s' with '%.*s'", l->t->n_merges + 1,
                           (int)(left_size < 60 ? left_size : 60), left,
                           (int)(right_size < 60 ? right_size : 60), right);
}

/* Adds a merge from the text "left right", which has exactly one space. */
static clt_status add_merge_text(loading *l, const char *text, size_t size)
{
    const char *space = memchr(text, ' ', size);
    size_t left = space ? (size_t)(space - text) : 0;
    if (!space || left == 0 || left + 1 == size || memchr(space + 1, ' ', size - left - 1))
        CLT_FAIL(CLT_EDATA,
                 "merge %u, '%.*s', is not two tokens with one space between them; is the file cut "
                 "off?",
                 l->t->n_merges + 1, (int)(size < 60 ? size : 60), text);
    return add_merge(l, text, left, space + 1, size - left - 1);
}

static clt_status add_merge_json(loading *l, const clt_json *entry)
{
    if (clt_json_typeof(entry) == CLT_JSON_STRING)
        return add_merge_text(l, clt_json_string(entry), strlen(clt_json_string(entry)));
    const clt_json *a = clt_json_typeof(entry) == CLT_JSON_ARRAY ? clt_json_first(entry) : NULL;
    const clt_json *b = a ? clt_json_next(a) : NULL;
    if (!b || clt_json_next(b) || clt_json_typeof(a) != CLT_JSON_STRING ||
        clt_json_typeof(b) != CLT_JSON_STRING)
        CLT_FAIL(CLT_EDATA, "merge %u is neither \"a b\" nor [\"a\", \"b\"]", l->t->n_merges + 1);
    return add_merge(l, clt_json_string(a), strlen(clt_json_string(a)), clt_json_string(b),
                     strlen(clt_json_string(b)));
}

/* Adds the merges of merges.txt; its first line may be "#version: ...". */
static clt_status add_merge_lines(loading *l)
{
    const char *at = l->merges_text, *end = at + l->merges_size;
    for (int line = 1; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t size = newline ? (size_t)(newline - at) : (size_t)(end - at);
        size_t used = size > 0 && at[size - 1] == '\r' ? size - 1 : size;
        bool version = line == 1 && used >= 8 && memcmp(at, "#version", 8) == 0;
        for (size_t i = 0, step; i < used; i += step)
            if ((step = clt_utf8_size(at + i, used - i)) == 0 || at[i] == '\0')
                CLT_FAIL(CLT_EDATA,
                         "reading '%s': line %d: byte %zu is not UTF-8 text; is it the right file?",
                         l->merges_path, line, i + 1);
        if (used > 0 && !version)
            CLT_TRY(
                clt_fail_prefix(add_merge_text(l, at, used), "reading '%s': line %d", l->merges_path, line));
        at += size + 1;
    }
    return CLT_OK;
}

/* True for tokens with which a text's encoding starts, before any merge. */
static bool is_symbol(const clt_tokenizer *t, const clt_token *token)
{
    return token->size == 1 ||
           (t->rules.sentence.on && (clt_utf8_size(token->bytes, token->size) == token->size ||
                                     clt_sentence_byte(token->bytes, token->size) >= 0));
}

/* Detects a merges file that was truncated at the end of a line, so that it still parses: then the
 * vocabulary has tokens that are the result of no merge. */
static clt_status check_made(const loading *l)
{
    clt_tokenizer *t = l->t;
    uint32_t unmade = 0;
    CLT_FREED uint8_t *made = NULL;
    if (t->rules.ignore_merges || t->rules.wordpiece.on)
        return CLT_OK;
    CLT_TRY(clt_alloc(&made, t->vocab, 1, "the check of a vocabulary"));
    for (uint32_t i = 0; i < t->n_merges; i++)
        made[t->merges[i].id] = 1;
    for (uint32_t i = 0; i < t->n_added; i++)
        made[t->added[i].id] = 1;
    for (uint32_t id = 0; id < t->vocab; id++)
        unmade += !is_symbol(t, &t->tokens[id]) && !t->tokens[id].literal && !made[id];
    if (unmade > MAX_UNMADE)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': %u tokens of the vocabulary are made by no merge (there are %u merges); the "
                 "merges are cut off or belong to another vocabulary",
                 l->merges_path, unmade, t->n_merges);
    return CLT_OK;
}

static clt_status fill(loading *l)
{
    uint64_t merges = 1;
    if (l->merges)
        merges = clt_json_count(l->merges);
    for (size_t i = 0; i < l->merges_size; i++)
        merges += l->merges_text[i] == '\n';
    if (merges > 4 * CLT_TOKENIZER_MAX_VOCAB)
        CLT_FAIL(CLT_EDATA, "reading '%s': it has %llu merges; at most %u are possible", l->path,
                 (unsigned long long)merges, 4 * CLT_TOKENIZER_MAX_VOCAB);
    CLT_TRY(put_tokens(l, (uint32_t)merges));
    for (const clt_json *entry = clt_json_first(l->merges); entry; entry = clt_json_next(entry))
        CLT_TRY(clt_tokenizer_at(l->doc, entry, add_merge_json(l, entry)));
    if (l->merges_text)
        CLT_TRY(add_merge_lines(l));
    clt_sentence_ready(l->t);
    return CLT_OK;
}

/* --- tokenizer.json --- */

static clt_status expect_type(const loading *l, const clt_json *value, clt_json_type type, const char *name)
{
    if (clt_json_typeof(value) == type)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA, "reading '%s': %s is %s, and should be %s; is it a tokenizer?", l->path, name,
             clt_json_type_name(clt_json_typeof(value)), clt_json_type_name(type));
}

static clt_status read_tokenizer_json(loading *l, const clt_json *root)
{
    const clt_json *model = clt_json_get(root, "model"), *added = clt_json_given(root, "added_tokens");
    CLT_TRY(expect_type(l, model, CLT_JSON_OBJECT, "model"));
    CLT_TRY(clt_tokenizer_read_rules(l, root, model));
    l->vocab = clt_json_get(model, "vocab");
    l->merges = clt_json_get(model, "merges");
    CLT_TRY(expect_type(l, l->vocab, CLT_JSON_OBJECT, "model.vocab"));
    if (!l->rules.wordpiece.on)
        CLT_TRY(expect_type(l, l->merges, CLT_JSON_ARRAY, "model.merges"));
    if (added)
        CLT_TRY(expect_type(l, added, CLT_JSON_ARRAY, "added_tokens"));
    CLT_TRY(clt_tokenizer_read_sides(l, added, true));
    return fill(l);
}

/* --- finding the files --- */

static clt_status read_pair(loading *l, const clt_json *root, const char *merges_path)
{
    l->vocab = root;
    CLT_TRY(clt_refuse_pointer_file(merges_path, "the merges themselves", CLT_EDATA));
    CLT_TRY(clt_file_read(merges_path, false, MERGES_MAX_BYTES, CLT_EDATA, &l->merges_text, &l->merges_size));
    if (l->merges_size == 0)
        CLT_FAIL(CLT_EDATA, "reading '%s': the file is empty; copy or download it again", merges_path);
    l->merges_path = merges_path;
    CLT_TRY(clt_tokenizer_read_sides(l, NULL, false));
    return fill(l);
}

/* Reads a vocabulary with its merges, or a tokenizer.json. If `merges_path` is NULL, the file must be a
 * tokenizer.json. */
static clt_status read_json(const char *path, const char *merges_path, loading *l)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    l->path = l->merges_path = path;
    CLT_TRY(clt_refuse_pointer_file(path, "the tokenizer itself", CLT_EDATA));
    CLT_TRY(clt_fail_prefix(clt_ends_with(path, CLT_VOCAB_TXT) ? clt_vocab_txt_parse(path, &doc)
                                                               : clt_json_parse_file(path, CLT_EDATA, &doc),
                            "reading the tokenizer '%s'", path));
    l->doc = doc;
    const clt_json *root = clt_json_root(doc);
    CLT_TRY(expect_type(l, root, CLT_JSON_OBJECT, "the document"));
    if (clt_json_member(root, "model", CLT_JSON_OBJECT))
        CLT_TRY(read_tokenizer_json(l, root));
    else if (merges_path)
        CLT_TRY(read_pair(l, root, merges_path));
    else
        CLT_FAIL(CLT_EDATA,
                 "reading the tokenizer '%s': it is a vocabulary without merges; put merges.txt or vocab.bpe "
                 "beside it",
                 path);
    return check_made(l);
}

/* *out: the path of the first file of these names that exists beside `path`; NULL: none exists. */
static clt_status find_beside(const char *path, const char *const *names, int count, char **out)
{
    *out = NULL;
    for (int i = 0; i < count && !*out; i++) {
        CLT_FREED char *beside = NULL;
        CLT_TRY(clt_path_beside(path, names[i], &beside));
        if (clt_file_exists(beside) && !clt_is_directory(beside))
            *out = CLT_TAKE(beside);
    }
    return CLT_OK;
}

/* Finds the one or two files to which `path` leads. */
static clt_status find_files(const char *path, char **json, char **merges)
{
    static const char *const jsons[] = {"tokenizer.json", "vocab.json", "encoder.json", CLT_VOCAB_TXT};
    static const char *const merge_names[] = {"merges.txt", "vocab.bpe"};
    *json = *merges = NULL;
    bool folder = clt_is_directory(path),
         is_merges = (clt_ends_with(path, ".txt") && !clt_ends_with(path, CLT_VOCAB_TXT)) ||
                     clt_ends_with(path, ".bpe");
    if (folder || is_merges)
        CLT_TRY(find_beside(path, jsons + (is_merges ? 1 : 0), is_merges ? 2 : 4, json));
    else if (!(*json = strdup(path)))
        CLT_FAIL(CLT_ENOMEM, "opening the tokenizer '%s': out of host memory", path);
    if (!*json)
        CLT_FAIL(CLT_EDATA,
                 "opening the tokenizer '%s': there is no %svocab.json or encoder.json %s it; check the path",
                 path, folder ? "tokenizer.json, vocab.txt, " : "", folder ? "in" : "beside");
    if (!is_merges)
        return find_beside(path, merge_names, 2, merges);
    if (!(*merges = strdup(path)))
        CLT_FAIL(CLT_ENOMEM, "opening the tokenizer '%s': out of host memory", path);
    return CLT_OK;
}

static clt_status describe(clt_tokenizer *t, const char *path)
{
    bool bytes = t->vocab == 256 && t->n_merges == 0;
    for (uint32_t id = 0; id < 256 && bytes; id++)
        bytes = t->byte_token[id] == id;
    bool pieces = t->rules.wordpiece.on, sentence = t->rules.sentence.on;
    t->bytes = bytes && !pieces && !sentence && t->n_added == 0 && !t->rules.nfc && !t->rules.prefix_space;
    t->description = clt_arena_printf(t->arena, "%s, %u tokens, from '%s'",
                                      t->bytes   ? "bytes"
                                      : pieces   ? "WordPiece"
                                      : sentence ? "SentencePiece BPE"
                                                 : "BPE",
                                      t->vocab, path);
    if (sentence && t->rules.sentence.unknown_id == CLT_NO_TOKEN && !clt_sentence_all_bytes(t))
        CLT_WARN_ONCE("tokenizer '%s': it has neither an unknown token nor a token for each byte, so "
                      "characters without a token are removed from texts",
                      path);
    return t->description ? CLT_OK : CLT_ENOMEM;
}

static void free_loading(loading *l)
{
    for (int i = 0; i < CLT_SIDES; i++)
        clt_json_destroy(l->side[i]);
    free(l->left);
    free(l->right);
    free(l->merges_text);
    free(l->added);
    clt_tokenizer_close(l->t);
}

CLT_SCOPED_VALUE(loading, free_loading)

clt_status clt_tokenizer_load(const char *path, clt_tokenizer **out)
{
    CLT_FREED char *json = NULL;
    CLT_FREED char *merges = NULL;
    CLT_SCOPED(loading) l = {0};
    *out = NULL;
    CLT_TRY(find_files(path, &json, &merges));
    CLT_TRY(read_json(json, merges, &l));
    CLT_TRY(describe(l.t, json));
    *out = CLT_TAKE(l.t);
    return CLT_OK;
}
