/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (Castagnoli), the checksum of TensorBoard's event files. */
#ifndef ENGINE_FILES_CRC32C_H
#define ENGINE_FILES_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Checksum of `size` bytes. Any thread may call it. */
uint32_t clt_crc32c(const void *data, size_t size);

#endif
