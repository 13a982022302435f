/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes predictions of annotated texts: classes as predict_out.h writes them, labels of words and answers as
 * JSON Lines. */
#ifndef CLI_SCREEN_PREDICT_TEXTS_OUT_H
#define CLI_SCREEN_PREDICT_TEXTS_OUT_H

#include "cli/screen/predict_out.h"
#include "engine/train/eval/predict_texts.h"

/* Predicts the records of a file and writes them. The output must be open. */
clt_status predict_texts_write(predict_out *out, clt_predictor *p, const char *path);
/* Chooses the format, whose default is csv for classes and jsonl for words and answers; for answers also
 * json, the object {id: answer} that SQuAD's evaluation script reads. CLT_EUSAGE: words or answers in
 * another format, or with --top-k, which is only for classes. given: --format, or NULL. */
clt_status predict_texts_format(const clt_predictor *p, const char *given, predict_out *out);

#endif
