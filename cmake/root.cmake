# SPDX-License-Identifier: Apache-2.0
#
# A toolchain file that builds for the Debian system in a folder that scripts/bundle_root.sh made: for its C library and its processor.
#
#   cmake -S . -B build-root -DCMAKE_TOOLCHAIN_FILE=cmake/root.cmake -DCLTRAIN_ROOT=FOLDER
#
# A FOLDER that is no absolute path begins at the top of the repository.
#
# The compiler is this machine's: `cc` for its own processor, else GCC by the processor's name (aarch64-linux-gnu-gcc, package
# gcc-aarch64-linux-gnu). CC in the environment names another one.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CLTRAIN_ROOT)
# Not CMAKE_SOURCE_DIR: each try_compile reads this file again, and has a source folder of its own.
file(REAL_PATH "${CLTRAIN_ROOT}" CMAKE_SYSROOT BASE_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/..")
file(GLOB clt_libc ${CMAKE_SYSROOT}/usr/lib/*-linux-gnu*/libc.so)
list(LENGTH clt_libc clt_systems)
if(CLTRAIN_ROOT STREQUAL "" OR NOT clt_systems EQUAL 1)
  message(FATAL_ERROR "CLTRAIN_ROOT='${CLTRAIN_ROOT}' is no folder of scripts/bundle_root.sh: it has ${clt_systems} of usr/lib/*-linux-gnu/libc.so, not one")
endif()
get_filename_component(clt_triplet ${clt_libc} DIRECTORY)
get_filename_component(clt_triplet ${clt_triplet} NAME)

set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR ${clt_triplet})
cmake_host_system_information(RESULT clt_host QUERY OS_PLATFORM)
if(NOT DEFINED ENV{CC} AND NOT clt_host STREQUAL CMAKE_SYSTEM_PROCESSOR)
  set(CMAKE_C_COMPILER ${clt_triplet}-gcc)
endif()

# Compilers for other processors search headers and libraries that were installed with them before the folder's. What is named here
# comes first.
set(CMAKE_C_FLAGS_INIT "-isystem ${CMAKE_SYSROOT}/usr/include/${clt_triplet} -isystem ${CMAKE_SYSROOT}/usr/include")
set(clt_link "-B${CMAKE_SYSROOT}/usr/lib/${clt_triplet} -L${CMAKE_SYSROOT}/usr/lib/${clt_triplet} -L${CMAKE_SYSROOT}/lib/${clt_triplet}")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "${clt_link}")
endforeach()

# Libraries and headers are the folder's, programs this machine's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/${clt_triplet}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
