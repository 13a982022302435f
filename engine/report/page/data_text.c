/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a row of tokens as text: trained tokens have a background color, and samples are separated. */
#include "engine/report/page/data_text.h"

#include <string.h>

#include "engine/base/text.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/report/page/html.h"

#define SHOWN 20000 /* characters of a run of text */

/* Text that was collected and not yet written. */
typedef struct showing {
    const clt_source *source;
    void *const *data;
    int document; /* index of the field; -1: a row is one text */
    bool trained; /* the collected text is trained */
    clt_str text;
} showing;

static int64_t number(const showing *s, int field, int64_t i)
{
    return (int64_t)clt_number_at(s->data[field], s->source->fields[field].dtype, i);
}

static void flush(showing *s, clt_str *out)
{
    if (!s->text.length)
        return;
    clt_str_append(out, s->trained ? "<mark>" : "");
    clt_html_text_cut(out, s->text.text, SHOWN);
    clt_str_append(out, s->trained ? "</mark>" : "");
    s->text.length = 0;
}

/* first: it begins a text. */
static clt_status put_token(showing *s, int64_t token, bool first, bool trained, clt_str *out)
{
    uint32_t id = (uint32_t)token;
    if (trained != s->trained)
        flush(s, out);
    s->trained = trained;
    return clt_tokenizer_decode_next(s->source->tokenizer, id, first, &s->text);
}

/* True if elements i and i + 1 of a row belong to one text. */
static bool same_text(const showing *s, int64_t i, int64_t count)
{
    return i + 1 < count && (s->document < 0 || number(s, s->document, i) == number(s, s->document, i + 1));
}

/* Returns where the padding of a row begins: a token that is not trained, repeated to the row's end. */
static int64_t find_padding(const showing *s, int64_t count)
{
    int64_t at = count;
    while (at > 0 && number(s, 1, at - 1) < 0 && number(s, 0, at - 1) == number(s, 0, count - 1) &&
           (at == count || same_text(s, at - 1, count)))
        at--;
    return count - at > 1 ? at : count;
}

clt_status clt_data_text_put(const clt_source *source, void *const *data, clt_str *out)
{
    showing s = {.source = source, .data = data, .document = -1};
    int64_t count = clt_shape_elements(&source->fields[0].shape), padding;
    clt_status status = CLT_OK;
    for (int f = 0; f < source->n_fields; f++)
        if (strcmp(source->fields[f].name, "document") == 0)
            s.document = f;
    padding = find_padding(&s, count);
    for (int64_t i = 0; i < padding && status == CLT_OK; i++) {
        bool first = i == 0 || !same_text(&s, i - 1, count), target = !first && number(&s, 1, i - 1) >= 0;
        int64_t next = number(&s, 1, i);
        status = put_token(&s, number(&s, 0, i), first, target, out);
        /* the last target of a text is not in the row of inputs */
        bool inside = same_text(&s, i, padding) && (next < 0 || next == number(&s, 0, i + 1));
        if (status == CLT_OK && next >= 0 && !inside)
            status = put_token(&s, next, false, true, out);
        if (!same_text(&s, i, padding)) {
            flush(&s, out);
            clt_str_append(out, i + 1 < padding ? "<hr>" : "");
        }
    }
    flush(&s, out);
    if (padding < count)
        clt_str_printf(out, " <small>and %lld token%s of padding</small>", (long long)(count - padding),
                       CLT_PLURAL((long long)(count - padding)));
    clt_str_free(&s.text);
    return status;
}
