# SPDX-License-Identifier: Apache-2.0
#
# What "cmake --install" writes, so that a program outside this repository finds the library with pkg-config or find_package:
# the program with its manual page and its completion for shells, both libraries, the header, cltrain.pc, cltrainConfig.cmake,
# the configs and example.c. Every installed file that
# names a path works it out from its own place, so the installed tree may be moved. "uninstall" removes what the last
# "cmake --install" of this build folder wrote.
include(CMakePackageConfigHelpers)

set(CLT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cltrain)
set(CLT_PKGCONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS cltrain_shared EXPORT cltrain-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS cltrain_static EXPORT cltrain-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES engine/cltrain.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/cltrain/configs FILES_MATCHING PATTERN "*.json")
install(FILES docs/example.c DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT cltrain-shared FILE cltrain-shared.cmake NAMESPACE cltrain:: DESTINATION ${CLT_CMAKE_DIR})
install(EXPORT cltrain-static FILE cltrain-static.cmake NAMESPACE cltrain:: DESTINATION ${CLT_CMAKE_DIR})

configure_package_config_file(cmake/cltrainConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/generated/cltrainConfig.cmake
  INSTALL_DESTINATION ${CLT_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/generated/cltrainConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/generated/cltrainConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/generated/cltrainConfigVersion.cmake DESTINATION ${CLT_CMAKE_DIR})

# The folders of cltrain.pc, from its own. (An absolute CMAKE_INSTALL_LIBDIR or INCLUDEDIR stays what it is.)
function(clt_from_pkgconfig folder out)
  if(IS_ABSOLUTE "${folder}")
    set(${out} "${folder}" PARENT_SCOPE)
  else()
    file(RELATIVE_PATH path "/${CLT_PKGCONFIG_DIR}" "/${folder}")
    string(REGEX REPLACE "/$" "" path "${path}")
    set(${out} "\${pcfiledir}/${path}" PARENT_SCOPE)
  endif()
endfunction()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(CLT_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(CLT_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
  set(CLT_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  clt_from_pkgconfig("" CLT_PC_PREFIX)
  clt_from_pkgconfig("${CMAKE_INSTALL_LIBDIR}" CLT_PC_LIBDIR)
  clt_from_pkgconfig("${CMAKE_INSTALL_INCLUDEDIR}" CLT_PC_INCLUDEDIR)
endif()
list(JOIN CLT_PACKAGES " " CLT_PC_REQUIRES)
configure_file(cmake/cltrain.pc.in ${CMAKE_CURRENT_BINARY_DIR}/generated/cltrain.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/generated/cltrain.pc DESTINATION ${CLT_PKGCONFIG_DIR})

# The manual page and the completion are what the program prints.
function(clt_install_printed file folder)
  set(path ${CMAKE_CURRENT_BINARY_DIR}/generated/${file})
  add_custom_command(OUTPUT ${path} DEPENDS cltrain
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:cltrain> "-DARGUMENTS=${ARGN}" -DOUT=${path}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/print_to_file.cmake VERBATIM)
  install(FILES ${path} DESTINATION ${folder})
  set(CLT_PRINTED ${CLT_PRINTED} ${path} PARENT_SCOPE)
endfunction()
if(TARGET cltrain AND NOT CMAKE_CROSSCOMPILING)
  clt_install_printed(cltrain.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
  clt_install_printed(bash/cltrain ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
  clt_install_printed(zsh/_cltrain ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
  clt_install_printed(fish/cltrain.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
  add_custom_target(cltrain_pages ALL DEPENDS ${CLT_PRINTED})
endif()

if(NOT TARGET uninstall)
  set(CLT_OWN_FOLDERS ${CMAKE_INSTALL_LIBDIR}/cltrain ${CLT_CMAKE_DIR} ${CMAKE_INSTALL_DATADIR}/cltrain/configs ${CMAKE_INSTALL_DOCDIR})
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_CURRENT_BINARY_DIR} "-DFOLDERS=${CLT_OWN_FOLDERS}"
    -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM)
endif()
