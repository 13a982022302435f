/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trained gpt, llama or bert as a folder that Hugging Face's transformers loads with
 * from_pretrained: config.json, generation_config.json, model.safetensors with the published names, and the
 * tokenizer. */
#ifndef ENGINE_PRETRAINED_HF_EXPORT_H
#define ENGINE_PRETRAINED_HF_EXPORT_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/pretrained/merge.h"

typedef struct clt_hf_exported {
    clt_export_result weights;
    bool zero_biases;    /* the model has no biases, so zeros were written, which GPT-2's class needs */
    char tokenizer[400]; /* description of the tokenizer; "": the run has none, and none was written */
    const char *differs; /* GGUF: where llama.cpp's ids differ from the run's; NULL: nowhere */
    char ends[400];      /* GGUF: tokens that end texts in cltrain but not in llama.cpp; "": none */
    const char *loader;  /* the class of transformers that loads it: "AutoModelForCausalLM" */
} clt_hf_exported;

/* Writes the folder (new_folder.h). `saved`: opened with its tensors, whose values of the kind `values` come
 * from `merge`. `dtype`: f32, f16 or bf16. CLT_EUNSUPPORTED: no class of transformers computes what the run
 * trained, with the reason; other errors as for clt_checkpoint_export. */
clt_status clt_hf_export(const clt_saved_run *saved, clt_merge *merge, clt_values values, clt_dtype dtype,
                         const char *folder, clt_hf_exported *result);

#endif
