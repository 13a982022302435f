/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C with four tables, four bytes at a time. */
#include "engine/files/crc32c.h"

#include <pthread.h>

#define POLYNOMIAL 0x82f63b78u /* Castagnoli's polynomial, bits reversed */

static uint32_t table[4][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1u ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        table[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 4; k++)
            table[k][n] = table[k - 1][n] >> 8 ^ table[0][table[k - 1][n] & 0xffu];
}

uint32_t clt_crc32c(const void *data, size_t size)
{
    const uint8_t *p = data;
    uint32_t crc = 0xffffffffu;
    (void)pthread_once(&made, make_table);
    for (; size >= 4; size -= 4, p += 4) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = table[3][crc & 0xffu] ^ table[2][crc >> 8 & 0xffu] ^ table[1][crc >> 16 & 0xffu] ^
              table[0][crc >> 24];
    }
    for (; size > 0; size--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xffu];
    return crc ^ 0xffffffffu;
}
