/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool for the test scripts: put_record PROBLEM VARIANT [name=value ...] writes one tuning record for the
 * default device into $CLTRAIN_CACHE_DIR, as if it had been measured, and prints the file's path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm/gemm.h"
#include "cl/tune/family.h"
#include "cl/tune/tuning_store.h"

static clt_status put(const ocl_device_desc *desc, int argc, char **argv)
{
    ocl_choice c = {.family = OCL_GEMM_FAMILY, .ns = 1000, .default_ns = 2000, .tried = 2, .complete = true};
    ocl_tuning *records;
    char *path;
    snprintf(c.problem, sizeof c.problem, "%s", argv[0]);
    snprintf(c.variant, sizeof c.variant, "%s", argv[1]);
    for (int i = 2; i < argc; i++) {
        char name[OCL_TUNE_NAME];
        int length = (int)strcspn(argv[i], "=");
        snprintf(name, sizeof name, "%.*s", length, argv[i]);
        CLT_TRY(ocl_choice_set(&c, name, atoi(argv[i] + length + 1)));
    }
    CLT_TRY(ocl_tuning_create(desc, &records));
    clt_status status = ocl_tuning_set(records, &c);
    if (status == CLT_OK)
        status = ocl_tuning_save(desc, records);
    ocl_tuning_destroy(records);
    CLT_TRY(status);
    CLT_TRY(ocl_tuning_path(desc, &path));
    printf("%s\n", path);
    free(path);
    return CLT_OK;
}

int main(int argc, char **argv)
{
    static const ocl_family *const families[] = {&ocl_gemm_family, NULL};
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    ocl_device *device;
    if (argc < 3) {
        fprintf(stderr, "usage: put_record PROBLEM VARIANT [name=value ...]\n");
        return 2;
    }
    ocl_families_register(families);
    clt_status status = ocl_device_open(&options, &device);
    if (status == CLT_OK) {
        status = put(ocl_device_describe(device), argc - 1, argv + 1);
        ocl_device_close(device);
    }
    if (status != CLT_OK)
        fprintf(stderr, "%s\n", clt_error_text());
    return clt_status_exit_code(status);
}
