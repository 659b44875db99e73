# cmake --install: library, headers, what find_package(Spool) and pkg-config read, licence and changelog.
include(CMakePackageConfigHelpers)

install(TARGETS spool EXPORT SpoolTargets FILE_SET HEADERS)
install(EXPORT SpoolTargets NAMESPACE Spool:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Spool)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/SpoolConfig.cmake.in ${PROJECT_BINARY_DIR}/SpoolConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Spool)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SpoolConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SpoolConfig.cmake ${PROJECT_BINARY_DIR}/SpoolConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Spool)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
include(SpoolPkgConfig)
if(PROJECT_IS_TOP_LEVEL)  # else the package would be of the project that Spool is a part of
  include(SpoolPackage)
endif()
