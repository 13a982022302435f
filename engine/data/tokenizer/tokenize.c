/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes long texts: they are cut at word boundaries into pieces, several threads encode these, and the ids
 * are delivered in order. It knows nothing of what the ids are used for. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/texts/characters.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

#define PIECE ((size_t)1 << 20) /* bytes that a thread encodes in one round, about */
#define MAX_THREADS 64

/* True if a whole UTF-8 character ends at `at` and is certainly not white space. */
static bool ends_a_word(const char *text, size_t at)
{
    clt_char_memo memo = {0};
    for (size_t size = 1; size <= 4 && size <= at; size++)
        if (clt_utf8_size(text + at - size, size) == size)
            return !(clt_char_classes(&memo, clt_utf8_code(text + at - size, size)) & CLT_CHAR_SPACE) &&
                   (uint8_t)text[at - 1] > ' ' && text[at - 1] != 0x7f;
    return false;
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* True if the text may be cut at `at`: before white space that follows another character. For all
 * splitting expressions, no word crosses such a place, and the words after it do not depend on the text
 * before it. A line break may be cut off only after a letter or digit, since it may belong to a word that
 * ends otherwise. */
static bool may_cut(const clt_tokenizer *t, const char *text, size_t size, size_t at)
{
    if (at == 0 || at == size)
        return true;
    char c = text[at];
    bool line = c == '\n' || c == '\r';
    if (t && t->rules.sentence.on) /* before a word that no merge joins to the text before it */
        return c == ' ' && (t->rules.sentence.apart || t->rules.sentence.split) && ends_a_word(text, at) &&
               !clt_sentence_ends_with_space(text, at) && clt_added_may_cut(t, text, size, at);
    bool cut = line ? is_alphanumeric(text[at - 1])
                    : (c == ' ' || c == '\t' || c == '\v' || c == '\f') && ends_a_word(text, at);
    if (!cut || !t)
        return cut;
    return !(t->rules.prefix_space && c != ' ') && clt_added_may_cut(t, text, size, at);
}

size_t clt_tokenize_cut(const clt_tokenizer *t, const char *text, size_t size, size_t want)
{
    if (want >= size)
        return size;
    for (size_t at = want; at > 0; at--)
        if (may_cut(t, text, size, at))
            return at;
    size_t at = want + 1;
    while (!may_cut(t, text, size, at))
        at++;
    return at;
}

/* A part of a document, or a whole short document. */
typedef struct piece {
    const char *text;
    size_t size;
    bool separate;    /* a separator token comes before it */
    bool first, last; /* it is the first or last piece of its document */
} piece;

typedef struct worker {
    clt_thread *thread;
    const clt_tokenizer *tokenizer;
    clt_encoder *encoder;
    piece *pieces;
    size_t n_pieces, pieces_capacity;
    uint64_t bytes; /* size of all pieces */
    bool framed;    /* adds the ids of clt_tokenizer_before and _after to documents */
    clt_ids ids;
    clt_error error;
} worker;

static clt_status push_ids(clt_ids *ids, const uint32_t *id, size_t count)
{
    CLT_TRY(clt_grow(&ids->id, &ids->capacity, ids->count + count, sizeof *ids->id, "ids"));
    for (size_t i = 0; i < count; i++)
        ids->id[ids->count++] = id[i];
    return CLT_OK;
}

static clt_status encode_piece(worker *w, const piece *p)
{
    size_t before, after;
    const uint32_t *begin = clt_tokenizer_before(w->tokenizer, &before);
    const uint32_t *end = clt_tokenizer_after(w->tokenizer, &after);
    uint32_t separator = (uint32_t)clt_tokenizer_end_of_text(w->tokenizer);
    if (p->separate)
        CLT_TRY(push_ids(&w->ids, &separator, 1));
    if (w->framed && p->first)
        CLT_TRY(push_ids(&w->ids, begin, before));
    CLT_TRY(clt_encode_marked(w->encoder, p->text, p->size, NULL, 0,
                              p->first ? CLT_TEXT_BEGINS : CLT_TEXT_CONTINUES, &w->ids));
    return w->framed && p->last ? push_ids(&w->ids, end, after) : CLT_OK;
}

static void *encode_pieces(void *context)
{
    worker *w = context;
    clt_status status = CLT_OK;
    w->ids.count = 0;
    for (size_t i = 0; i < w->n_pieces && status == CLT_OK; i++)
        status = encode_piece(w, &w->pieces[i]);
    clt_error_take(status, &w->error);
    return NULL;
}

/* The documents that workers have not yet received. */
typedef struct feed {
    const clt_tokenizer *tokenizer;
    const clt_document *documents;
    size_t n_documents, next; /* `next`: the document to give out now */
    size_t done;              /* bytes of that document that were given out */
    uint64_t from, to;        /* range of bytes of the joined text */
    bool any, separated;      /* a piece was given out; a token separates documents */
} feed;

/* Gives a worker pieces with about PIECE bytes in total. */
static clt_status deal(feed *f, worker *w)
{
    w->n_pieces = 0;
    w->bytes = 0;
    while (f->next < f->n_documents && w->bytes < PIECE) {
        const clt_document *d = &f->documents[f->next];
        size_t size;
        const char *text = clt_document_part(d, f->from, f->to, &size);
        if (size > 0) {
            size_t left = size - f->done, most = PIECE - (size_t)w->bytes;
            size_t length = left <= most ? left
                            : f->tokenizer->bytes
                                ? most
                                : clt_tokenize_cut(f->tokenizer, text + f->done, left, most);
            CLT_TRY(clt_grow(&w->pieces, &w->pieces_capacity, w->n_pieces + 1, sizeof *w->pieces, "pieces"));
            w->pieces[w->n_pieces++] = (piece){.text = text + f->done,
                                               .size = length,
                                               .separate = f->separated && f->any && f->done == 0,
                                               .first = f->done == 0 && text == d->bytes,
                                               .last = length == left && text + size == d->bytes + d->size};
            f->any = true;
            f->done += length;
            w->bytes += length;
        }
        if (f->done == size) {
            f->next++;
            f->done = 0;
        }
    }
    return CLT_OK;
}

static clt_status run_round(worker *workers, int count)
{
    clt_status status = CLT_OK;
    int started = 1;
    for (; started < count && status == CLT_OK; started++)
        status = clt_thread_start(&workers[started].thread, "tokenize", encode_pieces, &workers[started]);
    if (status == CLT_OK)
        (void)encode_pieces(&workers[0]);
    for (int i = 1; i < count; i++) {
        clt_thread_join(workers[i].thread);
        workers[i].thread = NULL;
    }
    for (int i = 0; i < count && status == CLT_OK; i++)
        status = clt_error_put(&workers[i].error);
    return status;
}

/* Encodes the documents in rounds. Each worker has its own encoder. */
static clt_status run_rounds(feed *f, worker *workers, int threads, clt_ids_sink sink, void *context)
{
    size_t done = 0;
    while (f->next < f->n_documents) {
        int count = 0;
        for (; count < threads && f->next < f->n_documents; count++)
            CLT_TRY(deal(f, &workers[count]));
        CLT_TRY(run_round(workers, count));
        for (int i = 0; i < count; i++) {
            done += (size_t)workers[i].bytes;
            if (workers[i].ids.count > 0)
                CLT_TRY(sink(context, workers[i].ids.id, workers[i].ids.count, done));
        }
    }
    return CLT_OK;
}

static clt_status tokenize_all(feed *f, bool framed, int threads, clt_ids_sink sink, void *context)
{
    CLT_FREED worker *workers = NULL;
    clt_status status = CLT_OK;
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    CLT_TRY(clt_alloc(&workers, (size_t)threads, sizeof *workers, "the threads of a tokenizer"));
    for (int i = 0; i < threads && status == CLT_OK; i++) {
        workers[i].tokenizer = f->tokenizer;
        workers[i].framed = framed;
        status = clt_encoder_create(f->tokenizer, &workers[i].encoder);
    }
    if (status == CLT_OK)
        status = run_rounds(f, workers, threads, sink, context);
    for (int i = 0; i < threads; i++) {
        clt_encoder_destroy(workers[i].encoder);
        free(workers[i].ids.id);
        free(workers[i].pieces);
    }
    return status;
}

clt_status clt_tokenize(const clt_tokenizer *tokenizer, const char *text, size_t size, int threads,
                        clt_ids_sink sink, void *context)
{
    const clt_document whole = {.bytes = text, .size = size};
    feed f = {.tokenizer = tokenizer, .documents = &whole, .n_documents = size > 0, .to = size};
    return tokenize_all(&f, false, threads, sink, context);
}

clt_status clt_tokenize_documents(const clt_tokenizer *tokenizer, const clt_texts *texts, uint64_t from,
                                  uint64_t to, int threads, clt_ids_sink sink, void *context)
{
    feed f = {.tokenizer = tokenizer,
              .documents = texts->documents,
              .n_documents = texts->n_documents,
              .from = from,
              .to = to,
              .separated = clt_tokenizer_end_of_text(tokenizer) >= 0};
    return tokenize_all(&f, true, threads, sink, context);
}
