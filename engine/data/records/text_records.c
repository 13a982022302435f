/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the files of records that a config names, divides them between training and evaluation, and
 * decides what happens with records that cannot be used. */
#include "engine/data/records/text_records.h"

#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/records/record_forms.h"

const char *clt_records_key(const clt_config *config, clt_split split)
{
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    return split == CLT_SPLIT_EVAL && own_eval ? "data.eval_path" : "data.path";
}

static clt_status load_files(const clt_config *config, const char *key, clt_texts *texts)
{
    texts->key = key;
    texts->json_key = "";
    texts->lines = true;
    texts->read_again = true;
    texts->cut_with = config;
    int count = clt_config_list_count(config, key);
    if (count == 0)
        CLT_FAIL(CLT_ECONFIG, "opening the samples: %s names no file; give a path or a list of paths", key);
    for (int i = 0; i < count; i++) {
        const char *path = clt_config_list_string(config, key, i);
        if (!path[0] || strcmp(path, "@") == 0)
            CLT_FAIL(CLT_ECONFIG, "opening the samples: path %d of %s is empty; name a file", i + 1, key);
        CLT_TRY(clt_texts_add(texts, path));
    }
    return CLT_OK;
}

clt_status clt_records_open(const clt_config *config, clt_split split, clt_texts *texts,
                            clt_record_part *part)
{
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    if (split == CLT_SPLIT_EVAL && !own_eval && !clt_records_has_eval(config))
        CLT_FAIL(CLT_ECONFIG, "opening the evaluation samples: data.eval_path is empty and data.split is 0; "
                              "set one of them");
    part->key = clt_records_key(config, split);
    CLT_TRY(load_files(config, part->key, texts));
    double share = own_eval ? 0.0 : clt_config_float(config, "data.split");
    int64_t all = (int64_t)texts->n_documents, train = (int64_t)((double)all * (1.0 - share));
    bool rest = split == CLT_SPLIT_EVAL && !own_eval;
    part->first = rest ? train : 0;
    part->count = rest ? all - train : train;
    return CLT_OK;
}

void clt_record_place(const clt_texts *texts, int64_t document, clt_str *out)
{
    const clt_document *d = &texts->documents[document];
    const clt_text_file *file = &texts->files[d->file];
    if (file->form == CLT_RECORD_SQUAD) { /* such a file has few line breaks or none */
        const char *first = file->content ? file->content : (const char *)file->mapping.data;
        clt_str_printf(out, "'%s', byte %lld, question %lld", file->path, (long long)(d->bytes - first) + 1,
                       (long long)d->part + 1);
        return;
    }
    if (file->listed) /* its line number says little if the whole list is on one line */
        clt_str_printf(out, "'%s', record %lld, line %lld", file->path, (long long)d->part + 1,
                       (long long)clt_document_line(texts, d));
    else
        clt_str_printf(out, "'%s', line %lld", file->path, (long long)clt_document_line(texts, d));
}

clt_status clt_records_judge(const clt_config *config, const clt_texts *texts, const clt_record_part *part,
                             int64_t bad, int64_t document, const char *why)
{
    CLT_SCOPED(clt_str) where = {0};
    if (bad == 0)
        return CLT_OK;
    clt_record_place(texts, document, &where);
    CLT_TRY(clt_str_check(&where));
    if (bad < part->count && strcmp(clt_config_string(config, "data.on_bad_sample"), "skip") == 0) {
        CLT_WARN_ONCE(
            "data: %lld of %lld sample%s of %s are skipped (data.on_bad_sample skip); the first, %s: %s",
            (long long)bad, (long long)part->count, CLT_PLURAL(part->count), part->key, where.text, why);
        return CLT_OK;
    }
    CLT_FAIL(CLT_EDATA,
             "reading the samples of %s: %s: %s; %lld of %lld sample%s cannot be used: cltrain data verify "
             "CONFIG names each, and data.on_bad_sample=skip trains without them",
             part->key, where.text, why, (long long)bad, (long long)part->count, CLT_PLURAL(part->count));
}

bool clt_records_has_eval(const clt_config *config)
{
    return clt_config_float(config, "data.split") > 0.0;
}
