/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trained language model as one GGUF file, which llama.cpp and the programs around it load: weights,
 * settings and tokenizer. Format: version 3 of ggml's docs/gguf.md. */
#ifndef ENGINE_PRETRAINED_GGUF_GGUF_H
#define ENGINE_PRETRAINED_GGUF_GGUF_H

#include "engine/models/models.h"
#include "engine/pretrained/hf_export.h"

/* Types of a file's matrices, by their numbers in the format. Vectors and position tables are always f32. */
typedef enum clt_gguf_type {
    CLT_GGUF_F32 = 0,
    CLT_GGUF_F16 = 1,
    CLT_GGUF_Q8_0 = 8, /* blocks of 32 values: a factor in f16 and 32 whole numbers of one byte */
    CLT_GGUF_BF16 = 30,
} clt_gguf_type;

/* The type with this name: f32, f16, bf16, q8_0. */
bool clt_gguf_type_from_name(const char *name, clt_gguf_type *type);
/* True for a tensor that stays f32 in every file: vectors, and the position table of a family with these
 * published names. */
bool clt_gguf_stays_f32(const clt_model_published *names, const clt_named_tensor *tensor);
/* Writes the file durably. `saved`, `merge`, `values`: as for clt_hf_export. CLT_EUNSUPPORTED with the
 * reason: no architecture of llama.cpp computes the run's model, or llama.cpp cannot split texts as the run's
 * tokenizer does. CLT_ENUMERIC: the type cannot hold a value. */
clt_status clt_gguf_export(const clt_saved_run *saved, clt_merge *merge, clt_values values,
                           clt_gguf_type type, const char *path, clt_hf_exported *result);

#endif
