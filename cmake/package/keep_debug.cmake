# cpack includes this for each generator. CPack moves the command's debug information into a Debian package of
# its own, so the command must still have it when it is staged for that generator.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_STRIP_FILES OFF)
  set(CPACK_CUSTOM_INSTALL_VARIABLES REDLATCH_KEEP_DEBUG_command=ON)
endif()
