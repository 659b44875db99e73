# Installs Spool from BUILD into a fresh prefix, builds the consumer project with find_package, and runs it.
# cmake -DBUILD=... -DCONSUMER=... -DCONSUMER_SOURCE=... -DGENERATOR=... -DCOMPILER=... -DWORK=... -P run.cmake
include(${CMAKE_CURRENT_LIST_DIR}/command.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCONSUMER_SOURCE=${CONSUMER_SOURCE})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/build/consumer)
