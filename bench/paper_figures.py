"""Every figure and table of the five papers that shows a measurement, and the figures here that repeat it."""

from __future__ import annotations

from typing import NamedTuple


class PaperFigure(NamedTuple):
    """A figure or table of a paper."""

    paper: str  # its key in docs/papers.md
    number: str
    shows: str
    ours: tuple[str, ...]  # names of figures here
    missing: str = ""  # why there is none here, or what of it is lacking


# Figures that only explain (AP-Tree 1 to 9, STAMP 1 to 7, Skype 1 to 5, CkQST 1 to 3, DkM-SKS 1 to 6) are not listed.
PAPER_FIGURES = (
    PaperFigure("APTREE", "10a", "matching by fanout", ("ap_tree_fig_10a",)),
    PaperFigure("APTREE", "10b", "matching by partition threshold", ("ap_tree_fig_10b",)),
    PaperFigure("APTREE", "11a", "matching with variants of the tree", ("ap_tree_fig_11a",)),
    PaperFigure("APTREE", "11b", "construction of the variants", ("ap_tree_fig_11b",)),
    PaperFigure("APTREE", "12a, 12c", "matching and memory on all data sets", ("ap_tree_fig_12a", "within_long")),
    PaperFigure("APTREE", "12b", "construction on all data sets", ("ap_tree_fig_12b",)),
    PaperFigure("APTREE", "13a, 13b", "matching by number of words", ("ap_tree_fig_13a", "ap_tree_fig_13b")),
    PaperFigure("APTREE", "14a, 14b", "matching by size of regions", ("ap_tree_fig_14a", "ap_tree_fig_14b")),
    PaperFigure("APTREE", "15a, 15b", "matching by number of subscriptions", ("ap_tree_fig_15a", "ap_tree_fig_15b")),
    PaperFigure("APTREE", "16a", "matching by rebuilding threshold", ("ap_tree_fig_16a",)),
    PaperFigure("APTREE", "16b", "insertion by rebuilding threshold", ("ap_tree_fig_16b",)),
    PaperFigure("APTREE", "17a", "matching after growth", ("ap_tree_fig_17a",)),
    PaperFigure("APTREE", "17b", "insertion by share built at once", ("ap_tree_fig_17b",)),
    PaperFigure("APTREE", "18a, 18b", "boolean expressions", ("ap_tree_fig_18a", "ap_tree_fig_18b")),
    PaperFigure("APTREE", "19a", "moving: message insertion", ("ap_tree_fig_19a",)),
    PaperFigure("APTREE", "19b", "moving: location update", ("ap_tree_fig_19b",)),
    PaperFigure("APTREE", "20a, 20b", "moving: variants of AP+-Tree", ("ap_tree_fig_20a", "ap_tree_fig_20b")),
    PaperFigure("APTREE", "21a, 21c", "moving: arrivals and memory on all data sets", ("ap_tree_fig_21a",)),
    PaperFigure("APTREE", "21b", "moving: moves on all data sets", ("ap_tree_fig_21b",)),
    PaperFigure("APTREE", "22a, 22b", "moving: mobility", ("ap_tree_fig_22a", "ap_tree_fig_22b")),
    PaperFigure("APTREE", "23a, 23b", "moving: velocity", ("ap_tree_fig_23a", "ap_tree_fig_23b")),
    PaperFigure("APTREE", "24a, 24b", "moving: size of regions", ("ap_tree_fig_24a", "ap_tree_fig_24b")),
    PaperFigure("APTREE", "25a, 25b", "moving: scale", ("ap_tree_fig_25a", "ap_tree_fig_25b")),
    PaperFigure("APTREE", "26", "time and messages sent with safe regions, by subscriptions", ("ap_tree_fig_26",)),
    PaperFigure("APTREE", "27", "time and messages sent with safe regions, by arrivals", ("ap_tree_fig_27",)),
    PaperFigure("STAMP", "table II", "100 people vote on parameters", (), "a study with people; not repeated"),
    PaperFigure("STAMP", "8", "choice by cost", ("stamp_fig_08",)),
    PaperFigure("STAMP", "9", "filters, time", ("stamp_fig_09", "stamp_fig_09_poi")),
    PaperFigure("STAMP", "10", "filters, subscriptions looked at", ("stamp_fig_10", "stamp_fig_10_poi")),
    PaperFigure("STAMP", "11", "against R^t++ and IR-trees", ("stamp_fig_11", "stamp_fig_11_poi")),
    PaperFigure("STAMP", "12a", "inserting", ("stamp_fig_12",)),
    PaperFigure("STAMP", "12b", "matching after inserts", ("stamp_fig_12_filter",)),
    PaperFigure("STAMP", "13a, 13b", "matching and memory by number of subscriptions", ("stamp_fig_13",)),
    PaperFigure("STAMP", "13c", "construction by number of subscriptions", ("stamp_fig_13_build",)),
    PaperFigure("STAMP", "13d", "other measures of similarity", ("stamp_fig_13_measures",)),
    PaperFigure("SKYPE", "6a", "tuning kmax", ("skype_fig_06a",)),
    PaperFigure("SKYPE", "6b", "tuning Skyband", ("skype_fig_06b",)),
    PaperFigure("SKYPE", "7", "number of alpha groups", ("skype_fig_07",)),
    PaperFigure("SKYPE", "8", "individual and group pruning", ("skype_fig_08",)),
    PaperFigure("SKYPE", "9a, 9b", "arrivals and memory against CIQ", ("skype_fig_09",)),
    PaperFigure("SKYPE", "10", "expiries against kmax and Skyband", ("skype_fig_10",)),
    PaperFigure("SKYPE", "table 2", "messages kept", ("skype_table_2",)),
    PaperFigure("SKYPE", "11a, 11b", "time and memory on all data sets", ("skype_fig_11",)),
    PaperFigure("SKYPE", "12", "number of words", ("skype_fig_12",), "places only"),
    PaperFigure("SKYPE", "13", "k", ("skype_fig_13",), "places only"),
    PaperFigure("SKYPE", "14", "number of subscriptions", ("skype_fig_14",), "places only"),
    PaperFigure("SKYPE", "15", "size of the window", ("skype_fig_15",), "places only"),
    PaperFigure("CKQST", "4", "words of a prefix", ("ckqst_fig_04",)),
    PaperFigure("CKQST", "5", "price of an update", ("ckqst_fig_05",)),
    PaperFigure("CKQST", "6", "k", ("ckqst_fig_06",)),
    PaperFigure("CKQST", "7", "re-evaluation: arrivals", ("ckqst_fig_07",)),
    PaperFigure("CKQST", "7", "re-evaluation: expiries (EOPT)", ("ckqst_fig_07_expiries",)),
    PaperFigure("CKQST", "7", "re-evaluation: construction (ICT)", ("ckqst_fig_07_build",)),
    PaperFigure("CKQST", "8", "data sets: arrivals", ("ckqst_fig_08",)),
    PaperFigure("CKQST", "9", "number of subscriptions: arrivals", ("ckqst_fig_09",)),
    PaperFigure("CKQST", "8, 9", "construction (ICT)", ("ckqst_build",)),
    PaperFigure("CKQST", "10", "number of words", ("ckqst_fig_10",)),
    PaperFigure("DKMSKS", "7", "update time as time goes by", ("dkm_fig_07",)),
    PaperFigure("DKMSKS", "8", "number of workers", ("dkm_fig_08",)),
    PaperFigure("DKMSKS", "9", "number of subscriptions", ("dkm_fig_09",)),
    PaperFigure("DKMSKS", "10", "largest k", ("dkm_fig_10",)),
    PaperFigure("DKMSKS", "table 2", "load balance", ("dkm_table_2",)),
    PaperFigure("DKMSKS", "table 3", "parts of the update time", ("dkm_table_3",)),
)
