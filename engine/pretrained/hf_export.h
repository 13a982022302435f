/* SPDX-License-Identifier: Apache-2.0
 *
 * A trained gpt as a folder that Hugging Face's transformers loads without an argument: config.json,
 * generation_config.json, model.safetensors with GPT-2's names, and the tokenizer. */
#ifndef ENGINE_PRETRAINED_HF_EXPORT_H
#define ENGINE_PRETRAINED_HF_EXPORT_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"

typedef struct clt_hf_exported {
    clt_export_result weights;
    bool zero_biases;    /* the model has none; GPT-2's class wants them, and zeros change nothing */
    char tokenizer[400]; /* its description; "": the run has none, and no tokenizer was written */
} clt_hf_exported;

/* Could the folder be made? CLT_EUSAGE: there is something already, or it would lie inside a checkpoint. */
clt_status clt_hf_export_place(const char *folder);
/* Writes the folder at `folder`: first beside it under another name, every file durable, then one rename, so
 * that there is all of it or nothing. saved: opened with its tensors. dtype: f32, f16 or bf16.
 * CLT_EUNSUPPORTED: the run trained something that no class of transformers is, with the reason; else as
 * clt_checkpoint_export. */
clt_status clt_hf_export(const clt_saved_run *saved, clt_dtype dtype, const char *folder,
                         clt_hf_exported *result);

#endif
