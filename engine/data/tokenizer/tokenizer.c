/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills and checks the tables of a tokenizer, decodes ids, and returns facts about any tokenizer. It
 * knows neither files nor how words are merged. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/data/data.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

/* Log2 of the size of the smallest table that `count` entries fill at most by half. */
static int table_bits(uint64_t count)
{
    int bits = 3;
    while ((UINT64_C(1) << bits) < 2 * count)
        bits++;
    return bits;
}

static clt_status make_tables(clt_tokenizer *t)
{
    size_t names = (size_t)1 << table_bits(t->vocab);
    int bits = table_bits(t->max_merges);
    t->tokens = clt_arena_alloc(t->arena, t->vocab * sizeof *t->tokens);
    t->by_bytes = clt_arena_alloc(t->arena, names * sizeof *t->by_bytes);
    t->merges = clt_arena_alloc(t->arena, t->max_merges * sizeof *t->merges);
    t->pairs = clt_arena_alloc(t->arena, ((size_t)1 << bits) * sizeof *t->pairs);
    if (!t->tokens || !t->by_bytes || !t->merges || !t->pairs)
        return CLT_ENOMEM;
    t->by_bytes_mask = (uint32_t)(names - 1);
    t->pairs_shift = 64 - bits;
    memset(t->by_bytes, 0xff, names * sizeof *t->by_bytes);
    for (size_t i = 0; i < (size_t)1 << bits; i++)
        t->pairs[i].key = UINT64_MAX;
    return CLT_OK;
}

clt_status clt_tokenizer_begin(uint32_t vocab, uint32_t max_merges, clt_tokenizer **out)
{
    CLT_SCOPED(clt_tokenizer) *t = NULL;
    *out = NULL;
    if (vocab > CLT_TOKENIZER_MAX_VOCAB || max_merges > 4 * CLT_TOKENIZER_MAX_VOCAB)
        CLT_FAIL(CLT_EDATA, "%u tokens and %u merges are more than the %u and %u that are possible", vocab,
                 max_merges, CLT_TOKENIZER_MAX_VOCAB, 4 * CLT_TOKENIZER_MAX_VOCAB);
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a tokenizer"));
    t->vocab = vocab;
    t->max_merges = max_merges;
    for (int role = 0; role < CLT_TOKEN_ROLES; role++)
        t->role[role] = -1;
    t->description = "";
    CLT_TRY(clt_arena_create(&t->arena));
    CLT_TRY(make_tables(t));
    *out = CLT_TAKE(t);
    return CLT_OK;
}

void clt_tokenizer_close(clt_tokenizer *t)
{
    if (!t)
        return;
    clt_arena_destroy(t->arena);
    free(t);
}

/* The slot of a token, or the empty slot where it belongs. */
static uint32_t name_slot(const clt_tokenizer *t, const char *bytes, size_t size)
{
    uint32_t at = (uint32_t)clt_hash64(bytes, size) & t->by_bytes_mask;
    for (; t->by_bytes[at] != CLT_NO_TOKEN; at = (at + 1) & t->by_bytes_mask) {
        const clt_token *token = &t->tokens[t->by_bytes[at]];
        if (token->size == size && memcmp(token->bytes, bytes, size) == 0)
            break;
    }
    return at;
}

uint32_t clt_tokenizer_find(const clt_tokenizer *t, const char *bytes, size_t size)
{
    return t->by_bytes[name_slot(t, bytes, size)];
}

clt_status clt_tokenizer_put(clt_tokenizer *t, int64_t id, const char *bytes, size_t size, bool literal)
{
    if (id < 0 || id >= (int64_t)t->vocab)
        CLT_FAIL(CLT_EDATA,
                 "the id %lld is out of range: there are %u tokens, so ids are 0 to %lld without a gap",
                 (long long)id, t->vocab, (long long)t->vocab - 1);
    if (size == 0 || size > CLT_TOKEN_MAX_BYTES)
        CLT_FAIL(CLT_EDATA, "the token has %zu bytes; a token must have 1 to %u", size, CLT_TOKEN_MAX_BYTES);
    clt_token *token = &t->tokens[id];
    if (token->bytes)
        CLT_FAIL(CLT_EDATA, "another token has the id %lld already; give each token a different id",
                 (long long)id);
    uint32_t slot = name_slot(t, bytes, size);
    if (!literal && t->by_bytes[slot] != CLT_NO_TOKEN)
        CLT_FAIL(CLT_EDATA, "the token is listed twice, with the ids %u and %lld; remove one of them",
                 t->by_bytes[slot], (long long)id);
    char *copy = clt_arena_alloc(t->arena, size);
    if (!copy)
        return CLT_ENOMEM;
    memcpy(copy, bytes, size);
    *token = (clt_token){copy, (uint32_t)size, literal, literal};
    if (!literal)
        t->by_bytes[slot] = (uint32_t)id;
    if (size == strlen(CLT_END_OF_TEXT) && memcmp(bytes, CLT_END_OF_TEXT, size) == 0) {
        t->role[CLT_TOKEN_END_OF_TEXT] = id;
        token->special = true;
    }
    return CLT_OK;
}

clt_status clt_tokenizer_ready(clt_tokenizer *t)
{
    for (uint32_t id = 0; id < t->vocab; id++)
        if (!t->tokens[id].bytes)
            CLT_FAIL(CLT_EDATA, "no token has the id %u; ids run from 0 to %u without a gap", id,
                     t->vocab - 1);
    for (uint32_t id = 0; id < t->vocab; id++)
        if (t->tokens[id].size > t->rules.wordpiece.longest)
            t->rules.wordpiece.longest = t->tokens[id].size;
    if (t->rules.wordpiece.on)
        return CLT_OK;
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte, name[CLT_BYTE_NAME];
        if (t->rules.sentence.on) {
            clt_sentence_byte_name((uint8_t)byte, name);
            t->byte_token[byte] = clt_tokenizer_find(t, name, strlen(name));
            continue;
        }
        t->byte_token[byte] = clt_tokenizer_find(t, &text, 1);
        if (t->byte_token[byte] == CLT_NO_TOKEN)
            CLT_FAIL(CLT_EDATA,
                     "there is no token for the single byte 0x%02x, so some texts could not be encoded; this "
                     "is not a byte-level vocabulary",
                     (unsigned)byte);
    }
    return CLT_OK;
}

clt_status clt_tokens_joined(const clt_token *a, const clt_token *b, char **out, size_t *size)
{
    *size = (size_t)a->size + b->size;
    CLT_TRY(clt_alloc(out, *size, 1, "a token"));
    memcpy(*out, a->bytes, a->size);
    memcpy(*out + a->size, b->bytes, b->size);
    return CLT_OK;
}

clt_status clt_tokenizer_merge(clt_tokenizer *t, uint32_t left, uint32_t right)
{
    CLT_FREED char *joined = NULL;
    size_t size;
    if (t->n_merges >= t->max_merges)
        CLT_FAIL(CLT_EINTERNAL, "filling a tokenizer: more than %u merges", t->max_merges);
    if (clt_tokenizer_pair(t, left, right))
        CLT_FAIL(CLT_EDATA, "the merge is listed twice; remove one of the two");
    CLT_TRY(clt_tokens_joined(&t->tokens[left], &t->tokens[right], &joined, &size));
    uint32_t id = clt_tokenizer_find(t, joined, size);
    if (id == CLT_NO_TOKEN)
        CLT_FAIL(CLT_EDATA, "the vocabulary has no token for the bytes that this merge joins; use files that "
                            "belong together");
    uint64_t key = (uint64_t)left << 32 | right, mask = UINT64_MAX >> t->pairs_shift;
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> t->pairs_shift;
    while (t->pairs[at].key != UINT64_MAX)
        at = (at + 1) & mask;
    t->pairs[at] = (clt_pair_slot){key, t->n_merges, id};
    t->merges[t->n_merges++] = (clt_merge){left, right, id};
    return CLT_OK;
}

/* --- any tokenizer --- */

bool clt_tokenizer_is_bytes(const clt_tokenizer *t)
{
    return t->bytes;
}

uint32_t clt_tokenizer_vocab(const clt_tokenizer *t)
{
    return t->vocab;
}

const char *clt_tokenizer_description(const clt_tokenizer *t)
{
    return t->description;
}

int64_t clt_tokenizer_role(const clt_tokenizer *t, clt_token_role role)
{
    return t->role[role];
}

int64_t clt_tokenizer_end_of_text(const clt_tokenizer *t)
{
    return t->role[CLT_TOKEN_END_OF_TEXT];
}

const uint32_t *clt_tokenizer_before(const clt_tokenizer *t, size_t *count)
{
    *count = (size_t)t->rules.before.count;
    return t->rules.before.id;
}

const uint32_t *clt_tokenizer_after(const clt_tokenizer *t, size_t *count)
{
    *count = (size_t)t->rules.after.count;
    return t->rules.after.id;
}

void clt_tokenizer_read_special(clt_tokenizer *t, bool on)
{
    t->reads_special = on;
}

/* True for a piece that continues a word. */
static bool continues(const clt_tokenizer *t, const clt_token *token)
{
    const size_t size = strlen(CLT_PIECE_PREFIX);
    return t->rules.wordpiece.on && !token->special && token->size > size &&
           memcmp(token->bytes, CLT_PIECE_PREFIX, size) == 0;
}

bool clt_tokenizer_continues(const clt_tokenizer *t, int64_t id)
{
    return id >= 0 && id < (int64_t)t->vocab && continues(t, &t->tokens[id]);
}

uint32_t clt_tokenizer_text_bytes(const clt_tokenizer *t, int64_t id)
{
    if (id < 0 || id >= (int64_t)t->vocab || t->tokens[id].special)
        return 0;
    if (t->rules.sentence.on)
        return clt_sentence_bytes(&t->tokens[id]);
    return t->tokens[id].size - (continues(t, &t->tokens[id]) ? (uint32_t)strlen(CLT_PIECE_PREFIX) : 0);
}

bool clt_tokenizer_surplus(const clt_tokenizer *t, int64_t rows, clt_str *names)
{
    bool special = true;
    int shown = 0;
    for (int64_t id = rows; id < (int64_t)t->vocab; id++) {
        special = special && t->tokens[id].special;
        if (shown++ < 8)
            clt_str_printf(names, "%s%.*s (%lld)", shown > 1 ? ", " : "", (int)t->tokens[id].size,
                           t->tokens[id].bytes, (long long)id);
    }
    if (shown > 8)
        clt_str_printf(names, " and %d more", shown - 8);
    return special;
}

/* Adds the settings that change how a text is encoded. GPT-2's settings add nothing, so that the hash of
 * such a tokenizer is the same as in earlier versions of this program. */
static void hash_rules(const clt_tokenizer *t, clt_hash64_state *state)
{
    const clt_tokenizer_rules *r = &t->rules;
    int words[] = {(int)r->splitting.words, (int)r->splitting.digits, r->nfc,
                   r->prefix_space,         r->before.count,          r->after.count};
    static const int plain[sizeof words / sizeof words[0]] = {0};
    if (memcmp(words, plain, sizeof words) != 0) {
        clt_hash64_add(state, words, sizeof words);
        clt_hash64_add(state, r->before.id, (size_t)r->before.count * sizeof r->before.id[0]);
        clt_hash64_add(state, r->after.id, (size_t)r->after.count * sizeof r->after.id[0]);
    }
    const clt_wordpiece *w = &r->wordpiece;
    uint32_t pieces[] = {w->on, w->clean, w->chinese, w->strip, w->lower, w->most, w->unknown_id};
    if (w->on)
        clt_hash64_add(state, pieces, sizeof pieces);
    const clt_sentence *s = &r->sentence;
    uint32_t letters[] = {
        s->normal, s->split, s->fallback, s->fuse, s->unknown_id, (uint32_t)s->prepend, (uint32_t)s->drop};
    if (s->on)
        clt_hash64_add(state, letters, sizeof letters);
    for (uint32_t i = 0; i < t->n_added; i++) {
        const clt_added_token *a = &t->added[i];
        uint32_t about[] = {a->id, a->normalized, a->single_word, a->lstrip, a->rstrip};
        if (!a->special)
            clt_hash64_add(state, about, sizeof about);
    }
}

uint64_t clt_tokenizer_hash(const clt_tokenizer *t)
{
    clt_hash64_state state;
    clt_hash64_begin(&state);
    for (uint32_t id = 0; id < t->vocab; id++) {
        uint32_t head[2] = {t->tokens[id].size, t->tokens[id].literal};
        clt_hash64_add(&state, head, sizeof head);
        clt_hash64_add(&state, t->tokens[id].bytes, t->tokens[id].size);
    }
    clt_hash64_add(&state, t->merges, t->n_merges * sizeof *t->merges);
    clt_hash64_add(&state, &t->rules.ignore_merges, sizeof t->rules.ignore_merges);
    hash_rules(t, &state);
    return clt_hash64_end(&state);
}

clt_status clt_tokenizer_decode_next(const clt_tokenizer *t, uint32_t id, bool first, clt_str *out)
{
    if (id >= t->vocab)
        CLT_FAIL(CLT_EDATA,
                 "decoding: id %u is not in the vocabulary, which has ids 0 to %u; the ids were made by "
                 "another tokenizer",
                 id, t->vocab - 1);
    const clt_token *token = &t->tokens[id];
    if (t->rules.sentence.on) {
        clt_sentence_append(t, id, first, out);
        return clt_str_check(out);
    }
    size_t skipped = continues(t, token) ? strlen(CLT_PIECE_PREFIX) : 0;
    if (t->rules.wordpiece.on && !first && skipped == 0)
        clt_str_append(out, " ");
    clt_str_append_n(out, token->bytes + skipped, token->size - skipped);
    return clt_str_check(out);
}

clt_status clt_tokenizer_decode(const clt_tokenizer *t, const uint32_t *ids, size_t count, clt_str *out)
{
    for (size_t i = 0; i < count; i++)
        CLT_TRY(clt_fail_prefix(clt_tokenizer_decode_next(t, ids[i], i == 0, out), "place %zu", i));
    return CLT_OK;
}

clt_status clt_tokenizer_open_config(const clt_config *config, clt_tokenizer **out)
{
    const char *named = clt_config_string(config, "data.tokenizer");
    const clt_source_type *type = clt_source_type_of(config);
    *out = NULL;
    if (*named)
        return clt_fail_prefix(clt_tokenizer_open(named, out), "opening data.tokenizer");
    return type->default_tokenizer ? type->default_tokenizer(config, out) : CLT_OK;
}
