/* SPDX-License-Identifier: Apache-2.0
 *
 * Long texts: cut at word boundaries into pieces, which several threads encode; the ids are delivered in
 * order. It knows nothing of what the ids are used for. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/tokenizer.h"

#define PIECE ((size_t)1 << 20)
#define MAX_THREADS 64

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether the character that ends at `at` is certainly not white space: printable ASCII, or in a range of
 * Unicode without white space. */
static bool ends_a_word(const char *text, size_t at)
{
    unsigned char last = (unsigned char)text[at - 1];
    if (last < 0x80)
        return last > 0x20 && last < 0x7f;
    for (size_t size = 2; size <= 4 && size <= at; size++) {
        const unsigned char *p = (const unsigned char *)text + at - size;
        if (p[0] < 0xc0)
            continue;
        if (clt_utf8_size(text + at - size, size) != size)
            return false;
        uint32_t code = size == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
                                  : (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        return size == 4 || (code >= 0xc0 && code < 0x1680) || (code > 0x3000 && code < 0xfe00);
    }
    return false;
}

/* Whether the text may be cut at `at`: before white space that follows another character. No word of GPT-2's
 * pattern crosses such a place, and the words after it do not depend on the text before it. */
static bool may_cut(const char *text, size_t size, size_t at)
{
    return at == 0 || at == size || (is_space(text[at]) && ends_a_word(text, at));
}

size_t clt_tokenize_cut(const char *text, size_t size, size_t want)
{
    if (want >= size)
        return size;
    for (size_t at = want; at > 0; at--)
        if (may_cut(text, size, at))
            return at;
    size_t at = want + 1;
    while (!may_cut(text, size, at))
        at++;
    return at;
}

typedef struct worker {
    clt_thread *thread;
    clt_encoder *encoder;
    const char *text;
    size_t size;
    clt_ids ids;
    clt_error error;
} worker;

static void *encode_piece(void *context)
{
    worker *w = context;
    w->ids.count = 0;
    clt_error_take(clt_encode(w->encoder, w->text, w->size, &w->ids), &w->error);
    return NULL;
}

/* Gives one piece of the text to each worker; the calling thread is the first of them. Returns the number of
 * pieces. */
static int deal(worker *workers, int threads, const char *text, size_t size, bool bytes)
{
    int dealt = 0;
    for (; dealt < threads && size > 0; dealt++) {
        size_t piece = bytes ? (size < PIECE ? size : PIECE) : clt_tokenize_cut(text, size, PIECE);
        workers[dealt].text = text;
        workers[dealt].size = piece;
        text += piece;
        size -= piece;
    }
    return dealt;
}

static clt_status run_round(worker *workers, int count)
{
    clt_status status = CLT_OK;
    int started = 1;
    for (; started < count && status == CLT_OK; started++)
        status = clt_thread_start(&workers[started].thread, "tokenize", encode_piece, &workers[started]);
    if (status == CLT_OK)
        (void)encode_piece(&workers[0]);
    for (int i = 1; i < count; i++) {
        clt_thread_join(workers[i].thread);
        workers[i].thread = NULL;
    }
    for (int i = 0; i < count && status == CLT_OK; i++)
        status = clt_error_put(&workers[i].error);
    return status;
}

clt_status clt_tokenize(const clt_tokenizer *tokenizer, const char *text, size_t size, int threads,
                        clt_ids_sink sink, void *context)
{
    worker *workers;
    clt_status status = CLT_OK;
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    CLT_TRY(clt_alloc(&workers, (size_t)threads, sizeof *workers, "the threads of a tokenizer"));
    for (int i = 0; i < threads && status == CLT_OK; i++)
        status = clt_encoder_create(tokenizer, &workers[i].encoder);
    for (size_t done = 0; done < size && status == CLT_OK;) {
        int count = deal(workers, threads, text + done, size - done, clt_tokenizer_is_bytes(tokenizer));
        status = run_round(workers, count);
        for (int i = 0; i < count && status == CLT_OK; i++) {
            done += workers[i].size;
            status = sink(context, workers[i].ids.id, workers[i].ids.count, done);
        }
    }
    for (int i = 0; i < threads; i++) {
        clt_encoder_destroy(workers[i].encoder);
        free(workers[i].ids.id);
    }
    free(workers);
    return status;
}
