/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises kinds of files by their first bytes, and refuses files that are not text or are git-lfs
 * pointers. */
#include "engine/files/file_kind.h"

#include <stdio.h>
#include <string.h>

#include "engine/files/fileio.h"

#define LOOKED_AT 4096

static const char pointer[] = "version https://git-lfs";

#define UNPACK "unpack it first, or compress it as .gz"
#define EXPORT "write its text column as JSON Lines, and give --json-key (data.json_key)"
#define TO_UTF8 "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
#define OTHERS "give files of text"

static const struct {
    const char *bytes;
    int at, length;
    const char *name, *advice;
    bool printable; /* a text may begin with these bytes, too */
} kinds[] = {
    {"\xff\xfe\0\0", 0, 4, "text in UTF-32, not UTF-8", "convert it to UTF-8: iconv -f UTF-32 -t UTF-8",
     false},
    {"\0\0\xfe\xff", 0, 4, "text in UTF-32, not UTF-8", "convert it to UTF-8: iconv -f UTF-32 -t UTF-8",
     false},
    {"\xff\xfe", 0, 2, "text in UTF-16, not UTF-8", TO_UTF8, false},
    {"\xfe\xff", 0, 2, "text in UTF-16, not UTF-8", TO_UTF8, false},
    {"PK\3\4", 0, 4, "a zip archive (as .docx, .xlsx, .npz and .pt files are), not text", UNPACK, false},
    {"PK\5\6", 0, 4, "an empty zip archive, not text", UNPACK, false},
    {"PAR1", 0, 4, "a Parquet file, not text", EXPORT, true},
    {"ARROW1", 0, 6, "an Arrow file, not text", EXPORT, true},
    {"Obj\1", 0, 4, "an Avro file, not text", EXPORT, false},
    {"SQLite format 3", 0, 15, "an SQLite database, not text", EXPORT, true},
    {"\x89HDF", 0, 4, "an HDF5 file, not text", EXPORT, false},
    {"\x28\xb5\x2f\xfd", 0, 4, "a Zstandard archive, not text", UNPACK, false},
    {"BZh", 0, 3, "a bzip2 archive, not text", UNPACK, true},
    {"\xfd"
     "7zXZ",
     0, 5, "an xz archive, not text", UNPACK, false},
    {"7z\xbc\xaf\x27\x1c", 0, 6, "a 7z archive, not text", UNPACK, false},
    {"Rar!\x1a", 0, 5, "a RAR archive, not text", UNPACK, false},
    {"ustar", 257, 5, "a tar archive, not text", "unpack it, and give the folder", true},
    {"%PDF-", 0, 5, "a PDF document, not text", "take its text out first (pdftotext)", false},
    {"\x7f"
     "ELF",
     0, 4, "a program, not text", OTHERS, false},
    {"GGUF", 0, 4, "a GGUF file of weights, not text", OTHERS, true},
    {"\x1f\x8b\x08", 0, 3, "a gzip archive after it was unpacked once, not text",
     "unpack it as often as it was packed", false},
    {"\x93NUMPY", 0, 6, "an array of NumPy, not text", OTHERS, false},
};

/* Image formats. "ftyp" at offset 4 is followed by the brand of the format. */
static const struct {
    const char *bytes;
    int at, length;
    const char *name;
} images[] = {
    {"\xff\xd8\xff", 0, 3, "a JPEG image"},
    {"\x89PNG", 0, 4, "a PNG image"},
    {"GIF8", 0, 4, "a GIF image"},
    {"WEBP", 8, 4, "a WebP image"},
    {"II*\0", 0, 4, "a TIFF image"},
    {"MM\0*", 0, 4, "a TIFF image"},
    {"II+\0", 0, 4, "a TIFF image"},
    {"MM\0+", 0, 4, "a TIFF image"},
    {"ftypavi", 4, 7, "an AVIF image"},
    {"ftyphei", 4, 7, "a HEIC image"},
    {"ftyphev", 4, 7, "a HEIC image"},
    {"ftypmif1", 4, 8, "a HEIC or AVIF image"},
    {"ftypmsf1", 4, 8, "a HEIC or AVIF image"},
    {"\0\0\0\x0cJXL ", 0, 8, "a JPEG XL image"},
    {"\xff\x0a", 0, 2, "a JPEG XL image"},
    {"\0\0\0\x0cjP  ", 0, 8, "a JPEG 2000 image"},
    {"8BPS", 0, 4, "a Photoshop image"},
};

static bool holds(const void *bytes, size_t size, const char *wanted, size_t at, size_t length)
{
    return size >= at + length && memcmp((const char *)bytes + at, wanted, length) == 0;
}

const char *clt_kind_of_image(const void *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        if (holds(bytes, size, images[i].bytes, (size_t)images[i].at, (size_t)images[i].length))
            return images[i].name;
    /* "BM" and the size of the file, then four bytes of zero */
    if (holds(bytes, size, "BM", 0, 2) && holds(bytes, size, "\0\0\0\0", 6, 4))
        return "a BMP image";
    const char *b = bytes;
    bool pnm = size >= 3 && b[0] == 'P' && b[1] >= '1' && b[1] <= '6' && b[2] == '\n';
    return pnm ? "a PNM image" : NULL;
}

clt_status clt_refuse_pointer(const void *bytes, size_t size, const char *what, clt_status code)
{
    if (!holds(bytes, size, pointer, 0, sizeof pointer - 1))
        return CLT_OK;
    CLT_FAIL(code, "it is a git-lfs pointer, not %s; fetch the file with 'git lfs pull'", what);
}

clt_status clt_refuse_pointer_file(const char *path, const char *what, clt_status code)
{
    char start[sizeof pointer] = "";
    size_t got = clt_file_first(path, start, sizeof start);
    return clt_fail_prefix(clt_refuse_pointer(start, got, what, code), "reading '%s'", path);
}

/* True if the first LOOKED_AT bytes hold a control character that no text contains. */
static bool has_controls(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size && i < LOOKED_AT; i++)
        if (bytes[i] < ' ' && !(bytes[i] >= '\b' && bytes[i] <= '\r') && bytes[i] != '\x1b')
            return true;
    return false;
}

/* Recognises UTF-16 without a byte order mark: nearly every second byte is zero, and no other byte is. */
static bool has_zeros_of_utf16(const unsigned char *bytes, size_t size)
{
    size_t zeros[2] = {0, 0}, pairs = (size < LOOKED_AT ? size : LOOKED_AT) / 2;
    for (size_t i = 0; i < 2 * pairs; i++)
        zeros[i % 2] += bytes[i] == 0;
    size_t most = zeros[0] > zeros[1] ? zeros[0] : zeros[1], least = zeros[0] + zeros[1] - most;
    return pairs >= 8 && most > pairs * 3 / 4 && least < pairs / 16;
}

clt_status clt_refuse_no_text(const void *bytes, size_t size, clt_status code, bool *other)
{
    *other = false;
    CLT_TRY(clt_refuse_pointer(bytes, size, "the text itself", code));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (holds(bytes, size, kinds[i].bytes, (size_t)kinds[i].at, (size_t)kinds[i].length) &&
            (!kinds[i].printable || has_controls(bytes, size))) {
            *other = strncmp(kinds[i].name, "text ", 5) != 0;
            CLT_FAIL(code, "it is %s; %s", kinds[i].name, kinds[i].advice);
        }
    const char *image = clt_kind_of_image(bytes, size);
    *other = image && has_controls(bytes, size);
    if (*other)
        CLT_FAIL(code, "it is %s, not text; " OTHERS, image);
    if (has_zeros_of_utf16(bytes, size))
        CLT_FAIL(code, "it is text in UTF-16, not UTF-8; " TO_UTF8);
    return CLT_OK;
}
