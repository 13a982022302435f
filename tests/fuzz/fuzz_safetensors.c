/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for the safetensors reader: any bytes must give a file or a message, never a
 * crash, and what is accepted must be readable to its last byte. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_everything(const clt_safetensors *file, size_t size)
{
    uint64_t total = 0;
    for (int i = 0; i < clt_safetensors_count(file); i++) {
        const clt_named_tensor *tensor = clt_safetensors_at(file, i);
        const uint64_t bytes = (uint64_t)clt_shape_elements(&tensor->shape) * clt_dtype_bytes(tensor->dtype);
        if (clt_safetensors_find(file, tensor->name) != tensor)
            abort();
        total += bytes;
        uint8_t sum = 0;
        for (uint64_t k = 0; k < bytes; k++)
            sum = (uint8_t)(sum + ((const uint8_t *)tensor->data)[k]);
        volatile uint8_t sink = sum;
        (void)sink;
        float *values = malloc((size_t)bytes * 4 + 4);
        if (values)
            (void)clt_named_tensor_to_f32(tensor, values);
        free(values);
    }
    if (total > size)
        abort();
    (void)clt_safetensors_metadata(file, "format");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    clt_safetensors *file = NULL;
    if (clt_safetensors_open(path, &file) == CLT_OK)
        read_everything(file, size);
    else if (clt_error_text()[0] == '\0')
        abort(); /* a refusal without a reason */
    clt_safetensors_close(file);
    (void)close(fd);
    return 0;
}
