/* SPDX-License-Identifier: Apache-2.0
 *
 * Low-rank adapters in the form of Hugging Face's PEFT: a folder with adapter_config.json and
 * adapter_model.safetensors. Reads such a folder as tensors and keys of our model section, and writes the
 * adapters of our runs. Settings of other kinds of adapters are refused by name; what a folder says about its
 * base model is not checked. Needs no device. */
#ifndef ENGINE_PRETRAINED_PEFT_H
#define ENGINE_PRETRAINED_PEFT_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/config/config.h"

typedef struct clt_peft clt_peft;

/* Opens and checks the folder. CLT_ECHECKPOINT: a file is missing or damaged, or a tensor's name or shape is
 * not an adapter's of this rank. CLT_EUNSUPPORTED lists every setting of adapter_config.json that is not
 * supported. */
clt_status clt_peft_open(const char *folder, clt_peft **out);
void clt_peft_close(clt_peft *peft); /* NULL is fine */
CLT_SCOPED_POINTER(clt_peft, clt_peft_close)
/* Values of the keys model.lora_..., which live as long as `peft`. */
const clt_config_presets *clt_peft_presets(clt_peft *peft);
/* "28 tensors of 14 layers, rank 8, scale 2, norm of B 0.53"; lives as long as `peft`. */
const char *clt_peft_words(const clt_peft *peft);
/* Appends the adapter's tensors, with their names in the model of transformers
 * ("model.layers.0.self_attn.q_proj.lora_A.weight"), to the tensors of *base, its base weights. Call it once.
 * Tensors of parts that were trained whole replace the base's. Copies of embeddings and output layers in the
 * adapter's file must equal the base's, else CLT_ECHECKPOINT, and are dropped. */
clt_status clt_peft_join(clt_peft *peft, clt_safetensors **base);

/* For `cltrain generate`: sets the keys model.lora_... of a run without adapters and adds the folder's
 * tensors to the run's. `saved`: opened with its tensors. CLT_EUSAGE if the run has its own adapters. */
clt_status clt_peft_put_on(clt_saved_run *saved, const char *folder);

typedef struct clt_peft_exported {
    clt_export_result weights;
    int64_t layers, rank, parts; /* parts: layers that were trained whole */
    bool idle; /* every B is zero and nothing was trained whole: the adapters change nothing */
} clt_peft_exported;

/* Writes the adapters of a run as a folder for PEFT, in f32; it appears complete or not at all. `base`: text
 * for base_model_name_or_path, or NULL. `saved`: opened with its tensors. CLT_EUNSUPPORTED: the run has no
 * adapters. */
clt_status clt_peft_export(const clt_saved_run *saved, clt_values values, const char *base,
                           const char *folder, clt_peft_exported *result);

#endif
