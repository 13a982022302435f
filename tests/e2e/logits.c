/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool for the test scripts: logits OUT CONFIG INIT [key=value ...] writes the logits of the first
 * evaluation batch as raw f32, (rows, vocab). INIT is what --init takes. logits --tensors WEIGHTS prints a
 * line for each tensor, logits --program TEMPLATE DATE the Jinja program of a chat template. */
#include <stdio.h>

#include "engine/base/hash.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/data/chat/chat_template.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/files/fileio.h"
#include "engine/pretrained/pretrained.h"
#include "engine/verify/self_test.h"
#include "tests/golden/first_logits.h"

static clt_status write_logits(int argc, char **argv)
{
    clt_pretrained *pretrained;
    clt_config *config;
    float *logits = NULL;
    int64_t rows = 0, vocab = 0;
    CLT_TRY(clt_pretrained_open(argv[3], &pretrained));
    clt_status status = clt_config_load_over(argv[2], (const char *const *)argv + 4, argc - 4,
                                             clt_pretrained_presets(pretrained, false), &config);
    clt_pretrained_close(pretrained);
    CLT_TRY(status);
    status = first_logits(config, argv[3], &logits, &rows, &vocab);
    if (status == CLT_OK)
        status = clt_file_write(argv[1], logits, (size_t)(rows * vocab) * sizeof *logits);
    free(logits);
    clt_config_destroy(config);
    return status;
}

static clt_status print_ids(const char *path, const char *file)
{
    clt_tokenizer *tokenizer;
    clt_ids ids = {0};
    char *text = NULL;
    size_t size;
    CLT_TRY(clt_tokenizer_open(path, &tokenizer));
    clt_status status = clt_file_read(file, false, 0, CLT_EDATA, &text, &size);
    if (status == CLT_OK)
        status = clt_tokenizer_encode(tokenizer, text, size, &ids);
    for (size_t i = 0; i < ids.count; i++)
        printf("%u ", ids.id[i]);
    printf("\n");
    free(ids.id);
    free(text);
    clt_tokenizer_close(tokenizer);
    return status;
}

/* A line for each tensor of a file or folder of weights: name, type, shape, hash of its bytes. */
static clt_status print_tensors(const char *path)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    char shape[CLT_SHAPE_TEXT];
    CLT_TRY(clt_weights_open(path, &file));
    for (int i = 0; i < clt_safetensors_count(file); i++) {
        const clt_named_tensor *t = clt_safetensors_at(file, i);
        size_t bytes = (size_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
        printf("%s %s %s %016llx\n", t->name, clt_dtype_name(t->dtype),
               clt_shape_text(&t->shape, shape, sizeof shape),
               (unsigned long long)clt_hash64(t->data, bytes));
    }
    return CLT_OK;
}

/* The Jinja program that an export writes for a chat template. */
static clt_status print_program(const char *name, const char *date)
{
    CLT_SCOPED(clt_str) program = {0};
    const clt_chat_template *chat = clt_chat_template_find(name);
    if (!chat)
        CLT_FAIL(CLT_EUSAGE, "there is no chat template '%s'", name);
    CLT_TRY(clt_chat_template_print(chat, "", date, &program));
    printf("%s\n", program.text);
    return CLT_OK;
}

int main(int argc, char **argv)
{
    bool tensors = argc == 3 && strcmp(argv[1], "--tensors") == 0;
    if (argc < 4 && !tensors) {
        fprintf(stderr, "usage: logits OUT CONFIG INIT [key=value ...], logits --ids TOKENIZER FILE, logits "
                        "--program TEMPLATE DATE, or logits --tensors WEIGHTS\n");
        return 2;
    }
    clt_self_test_register();
    clt_status status = tensors                             ? print_tensors(argv[2])
                        : strcmp(argv[1], "--ids") == 0     ? print_ids(argv[2], argv[3])
                        : strcmp(argv[1], "--program") == 0 ? print_program(argv[2], argv[3])
                                                            : write_logits(argc, argv);
    if (status != CLT_OK)
        fprintf(stderr, "logits: %s: %s\n", clt_status_text(status), clt_error_text());
    return clt_status_exit_code(status);
}
