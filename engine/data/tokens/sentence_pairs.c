/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes sentences and pairs of sentences by the rules of Devlin et al. 2018, arXiv:1810.04805, section 3.1
 * and appendix A.2. */
#include "engine/data/tokens/sentence_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"

#define AROUND 3       /* tokens that are not text: [CLS] and two [SEP] */
#define TRIES 10       /* limit of draws of another document */
#define SHORTEST 2     /* tokens of the shortest pair, without [CLS] and [SEP] */
#define PAIR_STREAM 3u /* op id of CLT_RNG_MASK; 0 to 2 belong to masks */

/* --- sentences --- */

static clt_status end_document(clt_sentences *s)
{
    if (s->n_sentences == s->first[s->n_documents])
        return CLT_OK;
    CLT_TRY(clt_grow(&s->first, &s->first_capacity, s->n_documents + 2, sizeof *s->first, "documents"));
    s->first[++s->n_documents] = s->n_sentences;
    return CLT_OK;
}

/* Ends a sentence, which consists of the ids since the previous one; does nothing if there are no such
 * ids. */
static clt_status end_sentence(clt_sentences *s)
{
    if (s->ids.count == s->begin[s->n_sentences])
        return CLT_OK;
    CLT_TRY(clt_grow(&s->begin, &s->begin_capacity, s->n_sentences + 2, sizeof *s->begin, "sentences"));
    s->begin[++s->n_sentences] = s->ids.count;
    return CLT_OK;
}

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (line[i] != ' ' && (line[i] < '\t' || line[i] > '\r'))
            return false;
    return true;
}

static clt_status read_document(clt_encoder *encoder, const clt_document *d, clt_sentences *out)
{
    for (const char *at = d->bytes, *end = d->bytes + d->size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((newline ? newline : end) - at);
        if (is_blank(at, size)) {
            CLT_TRY(end_document(out));
        } else {
            CLT_TRY(clt_encode(encoder, at, size, &out->ids));
            CLT_TRY(end_sentence(out));
        }
        at += size + 1;
    }
    return end_document(out);
}

clt_status clt_sentences_read(const clt_texts *texts, const clt_tokenizer *tokenizer, clt_sentences_tell tell,
                              void *context, clt_sentences *out)
{
    CLT_SCOPED(clt_encoder) *encoder = NULL;
    CLT_TRY(clt_encoder_create(tokenizer, &encoder));
    CLT_TRY(clt_grow(&out->begin, &out->begin_capacity, 2, sizeof *out->begin, "sentences"));
    CLT_TRY(clt_grow(&out->first, &out->first_capacity, 2, sizeof *out->first, "documents"));
    out->begin[0] = out->first[0] = 0;
    for (size_t i = 0; i < texts->n_documents; i++) {
        const clt_document *d = &texts->documents[i];
        CLT_TRY(read_document(encoder, d, out));
        if (tell)
            CLT_TRY(tell(context, d->begin + d->size));
    }
    return CLT_OK;
}

void clt_sentences_free(clt_sentences *s)
{
    free(s->ids.id);
    free(s->begin);
    free(s->first);
}

/* --- pairs --- */

typedef struct pairing {
    const clt_sentences *s;
    const clt_pairing *how;
    size_t from, to; /* documents */
    size_t document;
    uint32_t copy;
    uint64_t drawn;       /* number of random words drawn for this document so far */
    size_t target;        /* wanted number of tokens in both texts together */
    clt_ids a, b, record; /* the two texts; the record */
    clt_pair_sink put;
    void *context;
} pairing;

/* A random whole number from 0 to n - 1; n is below 2^32. */
static size_t draw(pairing *p, size_t n)
{
    uint64_t index = ((uint64_t)p->document << 32) + p->drawn++;
    uint64_t word = clt_rng_u32(p->how->seed, CLT_RNG_MASK, PAIR_STREAM, p->copy, index);
    return (size_t)(word * n >> 32);
}

static bool chance(pairing *p, double share)
{
    return (double)draw(p, (size_t)1 << 24) < share * 16777216.0;
}

static size_t tokens_of(const clt_sentences *s, size_t sentence)
{
    return s->begin[sentence + 1] - s->begin[sentence];
}

static clt_status append(clt_ids *out, const uint32_t *id, size_t count)
{
    CLT_TRY(clt_grow(&out->id, &out->capacity, out->count + count + 1, sizeof *out->id, "a pair"));
    memcpy(out->id + out->count, id, count * sizeof *id);
    out->count += count;
    return CLT_OK;
}

/* Appends sentences from `first` on, until `end` or until there are `enough` tokens. */
static clt_status append_sentences(const clt_sentences *s, size_t first, size_t end, size_t enough,
                                   clt_ids *out)
{
    for (size_t i = first; i < end && (i == first || out->count < enough); i++)
        CLT_TRY(append(out, s->ids.id + s->begin[i], tokens_of(s, i)));
    return CLT_OK;
}

static clt_status append_random(pairing *p, clt_ids *out)
{
    size_t other = p->document, wanted = p->target > p->a.count ? p->target - p->a.count : 1;
    for (int i = 0; i < TRIES && other == p->document; i++)
        other = p->from + draw(p, p->to - p->from);
    size_t first = p->s->first[other], end = p->s->first[other + 1];
    return append_sentences(p->s, first + draw(p, end - first), end, wanted, out);
}

/* Removes tokens from the longer text, one at a time and at a random end, until both texts fit. */
static void shorten(pairing *p)
{
    size_t begin[2] = {0, 0};
    clt_ids *text[2] = {&p->a, &p->b};
    while (p->a.count + p->b.count > (size_t)p->how->context - AROUND) {
        int longer = p->a.count <= p->b.count;
        begin[longer] += chance(p, 0.5);
        text[longer]->count--;
    }
    for (int i = 0; i < 2; i++)
        memmove(text[i]->id, text[i]->id + begin[i], text[i]->count * sizeof *text[i]->id);
}

static clt_status emit(pairing *p, bool random)
{
    const clt_pairing *how = p->how;
    shorten(p);
    p->record.count = 0;
    CLT_TRY(append(&p->record, &how->begin, 1));
    CLT_TRY(append(&p->record, p->a.id, p->a.count));
    CLT_TRY(append(&p->record, &how->separator, 1));
    size_t first = p->record.count;
    CLT_TRY(append(&p->record, p->b.id, p->b.count));
    CLT_TRY(append(&p->record, &how->separator, 1));
    return p->put(p->context, p->record.id, (int64_t)first, (int64_t)p->record.count, random);
}

/* Makes a pair from the sentences [first, *end). If the second text is random, *end becomes the end of the
 * first text, so that the sentences after it are used for the next pair. */
static clt_status pair_up(pairing *p, size_t first, size_t *end)
{
    size_t count = *end - first, in_a = count < 2 ? 1 : 1 + draw(p, count - 1);
    p->a.count = p->b.count = 0;
    CLT_TRY(append_sentences(p->s, first, first + in_a, SIZE_MAX, &p->a));
    bool random = count == 1 || chance(p, 0.5);
    if (random) {
        CLT_TRY(append_random(p, &p->b));
        *end = first + in_a;
    } else {
        CLT_TRY(append_sentences(p->s, first + in_a, *end, SIZE_MAX, &p->b));
    }
    return emit(p, random);
}

static clt_status pair_document(pairing *p)
{
    size_t most = (size_t)p->how->context - AROUND, end = p->s->first[p->document + 1];
    p->drawn = 0;
    p->target = chance(p, p->how->shorter) ? SHORTEST + draw(p, most - SHORTEST + 1) : most;
    for (size_t first = p->s->first[p->document], at = first, length = 0; at < end;) {
        length += tokens_of(p->s, at++);
        if (at < end && length < p->target)
            continue;
        CLT_TRY(pair_up(p, first, &at));
        first = at;
        length = 0;
    }
    return CLT_OK;
}

static void pairing_free(pairing *p)
{
    free(p->a.id);
    free(p->b.id);
    free(p->record.id);
}
CLT_SCOPED_VALUE(pairing, pairing_free)

clt_status clt_pairs_make(const clt_sentences *s, const clt_pairing *how, size_t from, size_t to,
                          clt_pair_sink put, void *context)
{
    CLT_SCOPED(pairing) p = {.s = s, .how = how, .from = from, .to = to, .put = put, .context = context};
    for (p.copy = 0; p.copy < how->copies; p.copy++)
        for (p.document = from; p.document < to; p.document++)
            CLT_TRY(pair_document(&p));
    return CLT_OK;
}
