# A compiler of Lua 5.1 checks the scripts; later versions accept what Redis' 5.1 refuses. A build
# without tests does not need it, since the tests of a release have checked its scripts.
find_program(REDLATCH_LUAC NAMES luac5.1 luac-5.1 luac51)
if(NOT REDLATCH_LUAC AND REDLATCH_BUILD_TESTS)
  message(FATAL_ERROR "redlatch's tests check its scripts with luac5.1 (Debian: lua5.1)")
endif()
set(REDLATCH_EMBED_LUA "${CMAKE_CURRENT_LIST_DIR}/embed_lua.cmake")

# Defines a target that generates <output_dir>/scripts.h from <lua_dir>/<folder>/<operation>.lua.
# See lua/README.md. NAMESPACE: where in redlatch:: the constants are, if not in lua.
function(redlatch_embed_lua target lua_dir output_dir)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "NAMESPACE" "")
  file(GLOB sources CONFIGURE_DEPENDS "${lua_dir}/*/*.lua" "${lua_dir}/*/common/*.lua")
  add_custom_command(
    OUTPUT "${output_dir}/scripts.h" "${output_dir}/pieces.h"
    COMMAND "${CMAKE_COMMAND}" "-DLUA_DIR=${lua_dir}" "-DOUTPUT_DIR=${output_dir}"
      "-DLUAC=${REDLATCH_LUAC}" "-DNAMESPACE=${arg_NAMESPACE}" -P "${REDLATCH_EMBED_LUA}"
    DEPENDS ${sources} "${REDLATCH_EMBED_LUA}"
    COMMENT "Embedding Lua scripts"
    VERBATIM)
  add_custom_target(${target} DEPENDS "${output_dir}/scripts.h" "${output_dir}/pieces.h")
endfunction()
