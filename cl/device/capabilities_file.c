/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the file of a device's answers in the user's cache. This file must not know the
 * questions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cl/device/capabilities.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"

#define MAX_BYTES 1000000u

/* "nvidia-h100-80gb-hbm3-0123456789abcdef-fedcba9876543210.json": the device's name as in its other files,
 * then the key. */
clt_status ocl_capabilities_path(const ocl_device_desc *device, uint64_t key, char **path, char **lock)
{
    CLT_FREED char *folder = NULL;
    CLT_FREED char *own = NULL;
    char name[OCL_DEVICE_FILE_NAME], file[160], text[CLT_HASH64_TEXT];
    *path = *lock = NULL;
    ocl_device_file_name(device, name, sizeof name);
    char *dot = strrchr(name, '.');
    if (dot != NULL)
        *dot = '\0';
    CLT_TRY(clt_cache_folder("answers", &folder));
    CLT_TRY(clt_private_folder_make(folder));
    snprintf(file, sizeof file, "%s-%s.json", name, clt_hash64_text(key, text));
    CLT_TRY(clt_path_join(folder, file, &own));
    snprintf(file, sizeof file, "%s-%s.lock", name, text);
    CLT_TRY(clt_path_join(folder, file, lock));
    *path = CLT_TAKE(own);
    return CLT_OK;
}

/* Reads the model's answers; there are none if there is no valid file. */
static clt_status read_file(const char *path, const ocl_device_desc *device, uint64_t key, bool tell,
                            ocl_capabilities *out)
{
    struct stat info; /* checked first, since opening a pipe would block */
    char *text = NULL;
    size_t length;
    memset(out, 0, sizeof *out);
    out->key = key;
    if (lstat(path, &info) != 0)
        return CLT_OK;
    clt_status status = S_ISREG(info.st_mode)
                            ? clt_file_read(path, false, MAX_BYTES, CLT_EDATA, &text, &length)
                            : clt_fail(CLT_EDATA, __FILE__, __LINE__, "%s: it is not a regular file", path);
    if (status == CLT_OK)
        status = ocl_capabilities_parse(text, length, path, out);
    free(text);
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    if (tell)
        CLT_WARN("remembered capabilities of device '%s' cannot be used, so it is probed again: %s",
                 device->name, clt_error_text());
    clt_error_clear();
    memset(out, 0, sizeof *out);
    out->key = key;
    return CLT_OK;
}

/* Writes the name that a device has in the list of refused ones: its index and a hash of the variables that
 * renumber devices, such as CUDA_VISIBLE_DEVICES, which schedulers set for each process. */
static void name_device(const ocl_device_desc *device, char out[OCL_REFUSED_SPEC])
{
    static const char *const variables[] = {
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",   "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
        "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",       "ONEAPI_DEVICE_SELECTOR"};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value != NULL)
            hash = hash * 31 + clt_hash64(value, strlen(value)) + i;
    }
    int n = snprintf(out, OCL_REFUSED_SPEC, "%.16s", device->spec);
    if (hash != 0)
        snprintf(out + n, OCL_REFUSED_SPEC - (size_t)n, "@%08x", (unsigned)(hash ^ hash >> 32));
}

clt_status ocl_capabilities_load(const char *path, const ocl_device_desc *device, uint64_t key,
                                 ocl_capabilities *out)
{
    char name[OCL_REFUSED_SPEC];
    CLT_TRY(read_file(path, device, key, true, out));
    name_device(device, name);
    return ocl_capabilities_apply_refusal(out, name);
}

clt_status ocl_capabilities_save(const char *path, const ocl_device_desc *device,
                                 const ocl_capabilities *capabilities)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_FREED ocl_capabilities *file = NULL;
    char name[OCL_REFUSED_SPEC];
    CLT_TRY(clt_alloc(&file, 1, sizeof *file, "answers"));
    CLT_TRY(read_file(path, device, capabilities->key, false, file));
    name_device(device, name);
    ocl_capabilities_note(capabilities, name, file);
    CLT_TRY(ocl_capabilities_print(file, device, &text));
    return clt_file_write(path, text.text, text.length);
}
