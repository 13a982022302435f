/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for the reader of PyTorch's files, in both forms: any bytes must give tensors or a
 * message, never a crash, and what is accepted must be readable to its last byte. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/checkpoint/weight_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_everything(const clt_safetensors *file)
{
    for (int i = 0; i < clt_safetensors_count(file); i++) {
        const clt_named_tensor *tensor = clt_safetensors_at(file, i);
        if (clt_safetensors_find(file, tensor->name) != tensor || !clt_safetensors_type(file, tensor)[0])
            abort();
        if ((int)tensor->dtype >= (int)CLT_DTYPE_COUNT)
            continue;
        /* an expanded tensor may have more elements than the file, but no more than the limit for copies */
        uint64_t bytes = (uint64_t)clt_shape_elements(&tensor->shape) * clt_dtype_bytes(tensor->dtype);
        uint8_t sum = 0;
        for (uint64_t k = 0; k < bytes; k++)
            sum = (uint8_t)(sum + ((const uint8_t *)tensor->data)[k]);
        volatile uint8_t sink = sum;
        (void)sink;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    clt_log_set_level(CLT_LOG_ERROR);
    clt_safetensors *file = NULL;
    if (clt_pytorch_open(path, size % 3 == 0 ? "." : NULL, &file) == CLT_OK)
        read_everything(file);
    else if (clt_error_text()[0] == '\0')
        abort(); /* a refusal without a reason */
    clt_safetensors_close(file);
    (void)close(fd);
    return 0;
}
