#pragma once
#include <spool/spool.h>

#include <string>

#include "options.h"

struct Data {
  spool::ImageDataset train, test;
  std::string description;  // what it is and where it came from
};

// The data set that the options, the environment, the cache or the network give; where there is none, the synthetic one, which the description says.
// Shows the progress of a download on standard error.
Data load_data(const Options& options);

// Pixels to [-1, 1]; for training, where asked for, after a random shift and mirroring.
spool::Transform transform(bool augment);
