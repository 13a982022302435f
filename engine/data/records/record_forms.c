/* SPDX-License-Identifier: Apache-2.0
 *
 * See record_forms.h. */
#include "engine/data/records/record_forms.h"

#include "engine/data/records/squad_file.h"

static clt_status cut_paragraph(void *context, const char *paragraph, size_t size, size_t at)
{
    clt_texts *texts = context;
    int64_t count = 0;
    CLT_TRY(
        clt_fail_prefix(clt_squad_questions(paragraph, size, &count), "the paragraph at byte %zu", at + 1));
    for (int64_t i = 0; i < count; i++)
        CLT_TRY(clt_texts_document(texts, paragraph, size, i));
    return CLT_OK;
}

clt_status clt_squad_cut(clt_texts *texts, const char *bytes, size_t size)
{
    bool found;
    CLT_TRY(clt_squad_walk(bytes, size, cut_paragraph, texts, &found));
    if (found)
        texts->files[texts->n_files - 1].form = CLT_RECORD_SQUAD;
    return CLT_OK;
}

clt_status clt_record_json(const clt_texts *texts, const clt_document *d, clt_str *made, const char **line,
                           size_t *size)
{
    *line = d->bytes;
    *size = (size_t)d->size;
    if (texts->files[d->file].form == CLT_RECORD_LINES)
        return CLT_OK;
    made->length = 0;
    CLT_TRY(clt_squad_record(d->bytes, (size_t)d->size, d->part, made));
    CLT_TRY(clt_str_check(made));
    *line = made->text;
    *size = made->length;
    return CLT_OK;
}
