//! The records of plans and of what services did, in the short notation of `avro::notation`.
//!
//! Their fields and the order of union branches are Hudi's; a record that Hudi reads with its own schema may lack what is null.

use crate::error::{Error, Result};
use crate::format::avro::{Definition, Model};
use crate::format::commit::DEFINITIONS as COMMIT;
use std::sync::LazyLock;

/// A record that is ready to be written, or why not: our own mistake.
pub(in crate::format) type Ready = LazyLock<Result<Model>>;

/// The record `name`.
pub(in crate::format) fn prepare(name: &str) -> Result<Model> {
    Model::new(name, &[&DEFINITIONS[..], &COMMIT].concat())
}

/// What [`prepare`] made.
pub(in crate::format) fn ready(model: &'static Ready) -> Result<&'static Model> {
    model.as_ref().map_err(Error::duplicate)
}

const DEFINITIONS: [Definition; 29] = [
    Definition {
        name: "HoodieInstantInfo",
        fields: "
            commitTime: string
            action: string",
    },
    Definition {
        name: "HoodieRollbackRequest",
        fields: "
            partitionPath: string
            fileId: string?
            latestBaseInstant: string?
            filesToBeDeleted: [string] = []
            logBlocksToBeDeleted: {long}?",
    },
    Definition {
        name: "HoodieRollbackPlan",
        fields: "
            instantToRollback: HoodieInstantInfo?
            RollbackRequests: [HoodieRollbackRequest]?
            version: int|null = 1",
    },
    Definition {
        name: "HoodieRollbackPartitionMetadata",
        fields: "
            partitionPath: string
            successDeleteFiles: [string]
            failedDeleteFiles: [string]
            rollbackLogFiles: {long}?
            logFilesFromFailedCommit: {long}?",
    },
    Definition {
        name: "HoodieRollbackMetadata",
        fields: "
            startRollbackTime: string
            timeTakenInMillis: long
            totalFilesDeleted: int
            commitsRollback: [string]
            partitionMetadata: {HoodieRollbackPartitionMetadata}
            version: int|null = 1
            instantsRollback: [HoodieInstantInfo] = []",
    },
    Definition {
        name: "HoodieRestorePlan",
        fields: "
            instantsToRollback: [HoodieInstantInfo] = []
            version: int|null = 2
            savepointToRestoreTimestamp: string?",
    },
    Definition {
        name: "HoodieRestoreMetadata",
        fields: "
            startRestoreTime: string
            timeTakenInMillis: long
            instantsToRollback: [string]
            hoodieRestoreMetadata: {[HoodieRollbackMetadata?]}
            version: int|null = 1
            restoreInstantInfo: [HoodieInstantInfo] = []",
    },
    Definition {
        name: "HoodieSavepointPartitionMetadata",
        fields: "
            partitionPath: string
            savepointDataFile: [string]",
    },
    Definition {
        name: "HoodieSavepointMetadata",
        fields: "
            savepointedBy: string
            savepointedAt: long
            comments: string
            partitionMetadata: {HoodieSavepointPartitionMetadata}
            version: int|null = 1",
    },
    Definition {
        name: "HoodieActionInstant",
        fields: "
            timestamp: string
            action: string
            state: string",
    },
    Definition {
        name: "HoodieCleanFileInfo",
        fields: "
            filePath: string?
            isBootstrapBaseFile: boolean?",
    },
    Definition {
        name: "HoodieCleanerPlan",
        fields: r#"
            earliestInstantToRetain: HoodieActionInstant?
            lastCompletedCommitTimestamp: string = ""
            policy: string
            filesToBeDeletedPerPartition: {[string]}?
            version: int|null = 1
            filePathsToBeDeletedPerPartition: {[HoodieCleanFileInfo]}?
            partitionsToBeDeleted: [string]?
            extraMetadata: {string}?"#,
    },
    Definition {
        name: "HoodieCleanPartitionMetadata",
        fields: "
            partitionPath: string
            policy: string
            deletePathPatterns: [string]
            successDeleteFiles: [string]
            failedDeleteFiles: [string]
            isPartitionDeleted: boolean?",
    },
    Definition {
        name: "HoodieCleanMetadata",
        fields: r#"
            startCleanTime: string
            timeTakenInMillis: long
            totalFilesDeleted: int
            earliestCommitToRetain: string
            lastCompletedCommitTimestamp: string = ""
            partitionMetadata: {HoodieCleanPartitionMetadata}
            version: int|null = 1
            bootstrapPartitionMetadata: {HoodieCleanPartitionMetadata}?
            extraMetadata: {string}?"#,
    },
    Definition {
        name: "HoodieCompactionOperation",
        fields: "
            baseInstantTime: string?
            deltaFilePaths: [string]?
            dataFilePath: string?
            fileId: string?
            partitionPath: string?
            metrics: {double}?
            bootstrapFilePath: string?",
    },
    Definition {
        name: "HoodieCompactionStrategy",
        fields: "
            compactorClassName: string?
            strategyParams: {string}?
            version: int|null = 1",
    },
    Definition {
        name: "HoodieCompactionPlan",
        fields: "
            operations: [HoodieCompactionOperation]?
            extraMetadata: {string}?
            version: int|null = 1
            strategy: HoodieCompactionStrategy?
            preserveHoodieMetadata: boolean|null = false
            missingSchedulePartitions: [string]?",
    },
    Definition {
        name: "HoodieSliceInfo",
        fields: "
            dataFilePath: string?
            deltaFilePaths: [string]?
            fileId: string?
            partitionPath: string?
            bootstrapFilePath: string?
            version: int|null = 1",
    },
    Definition {
        name: "HoodieClusteringGroup",
        fields: "
            slices: [HoodieSliceInfo]?
            metrics: {double}?
            numOutputFileGroups: int|null = 1
            extraMetadata: {string}?
            version: int|null = 1",
    },
    Definition {
        name: "HoodieClusteringStrategy",
        fields: "
            strategyClassName: string?
            strategyParams: {string}?
            version: int|null = 1",
    },
    Definition {
        name: "HoodieClusteringPlan",
        fields: "
            inputGroups: [HoodieClusteringGroup]?
            strategy: HoodieClusteringStrategy?
            extraMetadata: {string}?
            version: int|null = 1
            preserveHoodieMetadata: boolean?
            missingSchedulePartitions: [string]?",
    },
    Definition {
        name: "HoodieRequestedReplaceMetadata",
        fields: "
            operationType: string?
            clusteringPlan: HoodieClusteringPlan?
            extraMetadata: {string}?
            version: int|null = 1",
    },
    Definition {
        name: "HoodieCompactionWriteStat",
        fields: "
            partitionPath: string?
            totalLogRecords: long?
            totalLogFiles: long?
            totalUpdatedRecordsCompacted: long?
            hoodieWriteStat: HoodieWriteStat?",
    },
    Definition {
        name: "HoodieCompactionMetadata",
        fields: "
            partitionToCompactionWriteStats: {[HoodieCompactionWriteStat]}?",
    },
    Definition {
        name: "HoodieIndexPartitionInfo",
        fields: "
            version: int|null = 1
            metadataPartitionPath: string?
            indexUptoInstant: string?
            extraMetadata: {string}?",
    },
    Definition {
        name: "HoodieIndexPlan",
        fields: "
            version: int|null = 1
            indexPartitionInfos: [HoodieIndexPartitionInfo]?",
    },
    Definition {
        name: "HoodieIndexCommitMetadata",
        fields: "
            version: int|null = 1
            operationType: string?
            indexPartitionInfos: [HoodieIndexPartitionInfo]?",
    },
    Definition {
        name: "HoodieArchivedMetaEntry",
        fields: "
            hoodieCommitMetadata: HoodieCommitMetadata?
            hoodieCleanMetadata: HoodieCleanMetadata?
            hoodieCompactionMetadata: HoodieCompactionMetadata?
            hoodieRollbackMetadata: HoodieRollbackMetadata?
            hoodieSavePointMetadata: HoodieSavepointMetadata?
            commitTime: string?
            actionType: string?
            version: int|null = 1
            hoodieCompactionPlan: HoodieCompactionPlan?
            hoodieCleanerPlan: HoodieCleanerPlan?
            actionState: string?
            hoodieReplaceCommitMetadata: HoodieReplaceCommitMetadata?
            hoodieRequestedReplaceMetadata: HoodieRequestedReplaceMetadata?
            HoodieInflightReplaceMetadata: HoodieCommitMetadata?
            hoodieIndexCommitMetadata: HoodieIndexCommitMetadata?
            stateTransitionTime: string?",
    },
    Definition {
        name: "HoodieLSMTimelineInstant",
        fields: "
            instantTime: string?
            completionTime: string?
            action: string?
            metadata: bytes?
            plan: bytes?
            version: int = 1",
    },
];
