/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target for NIfTI files, plain and packed. Not built by default; build as fuzz_idx.c says. */
#include "tests/fuzz/fuzz_data.h"

#include "engine/data/volumes/volume_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    clt_volume volume;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        clt_fd_write(fd, data, size, "fuzz") != CLT_OK)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    clt_status looked = clt_volume_look(&volume, path, 1, "data.path");
    clt_volume_close(&volume);
    clt_status status = clt_volume_open(&volume, path, 1, "fuzz");
    if (status == CLT_OK && looked != CLT_OK)
        abort(); /* a file that can be opened has a valid header */
    if (status == CLT_OK && volume.array.sample_elements < (1 << 20))
        status = clt_volume_check(&volume);
    if (status != CLT_OK && status != CLT_EDATA && status != CLT_ENOMEM)
        abort();
    clt_volume_close(&volume);
    return 0;
}
